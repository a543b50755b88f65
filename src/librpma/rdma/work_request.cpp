// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/work_request.hpp"

#include "log.hpp"

namespace rpma::rdma
{

int post_failed(const char *call, int returned)
{
    return to_int(log::provider_error(returned > 0 ? returned : errno, call));
}

} // namespace rpma::rdma

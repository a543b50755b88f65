// SPDX-License-Identifier: BSD-3-Clause
#include "connected_client.hpp"

namespace bench
{

template class connected_client<rpma_api>;

} // namespace bench

// SPDX-License-Identifier: BSD-3-Clause
#include "connected_client.hpp"

namespace bench
{

template class connected_client<tcp_api>;

} // namespace bench

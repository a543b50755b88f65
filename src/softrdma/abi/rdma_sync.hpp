// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi/device.hpp"
#include "cm/cm.hpp"

#include <cstdlib>
#include <string_view>

namespace softrdma::abi
{

// For a synchronous id: waits for the event of the call just made and keeps it in id.event.
int complete(net::cm_id &id);

} // namespace softrdma::abi

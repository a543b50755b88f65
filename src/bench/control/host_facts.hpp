// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

namespace bench
{

host describe_host();
// Describes the librpma.so.0 that is mapped into this process. The label stays empty.
library describe_library();
std::string rdma_core_version();
// "SoftRoCE (rxe)" for the device rxe0; the driver's name for hardware.
std::string transport_of(const std::string &device);
bool is_softrdma(const std::string &device);

} // namespace bench

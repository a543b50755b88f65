// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

// Facts about this machine and process for the results.
namespace bench
{

host describe_host();
// The mapped librpma.so.0, without a label.
library describe_library();
std::string rdma_core_version();
// "SoftRoCE (rxe)" for the device rxe0; the driver's name for hardware.
std::string transport_of(const std::string &device);
bool is_softrdma(const std::string &device);

} // namespace bench

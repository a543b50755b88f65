// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

// What is known of this machine and process without asking a person.
namespace bench
{

host describe_host();
// The librpma.so.0 that is really mapped, without a label.
library describe_library();
std::string rdma_core_version();
// "SoftRoCE (rxe)" for the device rxe0; the driver's name for hardware.
std::string transport_of(const std::string &device);
bool is_softrdma(const std::string &device);

} // namespace bench

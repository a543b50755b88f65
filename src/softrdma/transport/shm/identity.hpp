// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/shm_address.hpp"

namespace softrdma::local
{

const identity &own_identity();
// In clock ticks since boot; 0 if it cannot be told.
std::uint64_t own_start_time();
// The kernel lets only chosen processes of the same user act on each other.
bool yama_restricts();

} // namespace softrdma::local

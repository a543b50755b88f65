// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/layout.hpp"

namespace softrdma::local
{

// Tells apart hosts, namespaces and incarnations of process numbers.
struct identity {
    std::array<std::uint8_t, 16> boot{};
    std::uint32_t uid = 0;
    std::uint32_t pid = 0;
    std::uint64_t start_time = 0;

    static const identity &own();
    bool operator==(const identity &) const = default;
};

// In clock ticks since boot; 0 if it cannot be told.
std::uint64_t own_start_time();
// The kernel lets only chosen processes of the same user act on each other.
bool yama_restricts();

} // namespace softrdma::local

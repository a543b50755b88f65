// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace softrdma::pmem
{

// Writes file pages back by the process' msync(), as a library would. Returns 0 or an errno value.
int sync_pages(std::uintptr_t begin, std::size_t length) noexcept;

// msync() for the program and its libraries: a simulated power cut keeps the data. Plain msync() inside sync_pages().
int sync_for_program(void *begin, std::size_t length, int flags) noexcept;

} // namespace softrdma::pmem

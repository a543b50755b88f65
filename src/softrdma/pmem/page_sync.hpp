// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace softrdma::pmem
{

// Writes the file pages of the range back, for the device. Returns 0 or an errno value. Calls the msync() of the
// process, as a library would.
int sync_pages(std::uintptr_t begin, std::size_t length) noexcept;

// Implements msync() for the program and its libraries. A simulated power cut keeps data that it has made durable. A
// call by sync_pages() is a plain msync().
int sync_for_program(void *begin, std::size_t length, int flags) noexcept;

} // namespace softrdma::pmem

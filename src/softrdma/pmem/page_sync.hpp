// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace softrdma::pmem
{

// Writes the file's pages under the range back, for the device: 0 or an errno value. It calls what the process has as
// msync(), as any library would.
int sync_pages(std::uintptr_t begin, std::size_t length) noexcept;

// Does what msync() does, for the program and its libraries. A simulated power cut takes nothing of what that has made
// durable. It may be sync_pages() that calls: for that it is msync() and nothing more.
int sync_for_program(void *begin, std::size_t length, int flags) noexcept;

} // namespace softrdma::pmem

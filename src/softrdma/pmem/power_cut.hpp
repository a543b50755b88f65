// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// A simulated power cut. Each cache line that the device has stored to in durable memory, and that was not flushed, is
// lost, torn or kept at random; flushed data remains. Before the cut all stores are visible, as with an RNIC. Works
// with an undo log of the former contents of the lines, which excludes stores by the program itself.
namespace softrdma::pmem::power_cut
{

void configure();

extern std::atomic<bool> is_armed; // set by configure(), before the first store
inline bool armed() noexcept
{
    return is_armed.load(std::memory_order_relaxed);
}

void about_to_store(std::uintptr_t begin, std::size_t bytes);
void on_durable(std::uintptr_t begin, std::size_t bytes);
// Call when the device has executed an operation for a peer: cuts after the configured number of operations.
void operation_done();

[[noreturn]] void cut(); // restores the lost data, then calls _exit(137)

} // namespace softrdma::pmem::power_cut

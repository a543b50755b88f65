// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// A simulated power cut: of what the device has stored into durable memory and nobody has flushed, each cache line is
// lost, torn or kept at random; what was flushed stays. Until then everybody sees the stores, as on hardware. Works by
// an undo log of the lines' former bytes; what the program stores itself is not in it.
namespace softrdma::pmem::power_cut
{

// Reads SOFTRDMA_POWERCUT, once. Ends the process if it makes no sense.
void configure();

extern std::atomic<bool> is_armed; // set by configure(), before anything is stored
inline bool armed() noexcept
{
    return is_armed.load(std::memory_order_relaxed);
}

// Before a store into durable memory.
void about_to_store(std::uintptr_t begin, std::size_t bytes);
// The range has been made durable.
void made_durable(std::uintptr_t begin, std::size_t bytes);
// The device has carried out an operation for a peer: cuts if it was the last one to be.
void operation_done();

// Restores what is lost and ends the process with _exit(137).
[[noreturn]] void cut();

} // namespace softrdma::pmem::power_cut

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"
#include "wire/shm_address.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softrdma
{

// Start of the file that a process shares: its identity and regions. The blocks of transport/shared_layout.hpp follow.

inline constexpr std::uint64_t arena_magic = 0x616e657261534652;
// Must be raised with each change of this file, transport/shared_layout.hpp or their protocol. Versions meet over TCP.
inline constexpr std::uint32_t arena_version = 9;

// The next two structures describe the process that owns the arena. Rows in docs/softrdma.md: `liveness`,
// `arena_facts::enrolled`.
// - The owner writes `arena_header` before a peer can open the file, and never changes it. A peer copies it once, and
//   uses the arena only if it is the one that the owner has described over the connection of the two queue pairs.
// - `token_address` is the address of the token in the owner's private memory. A peer that reads the token there has
//   found the right process.
// - `uses_flush` changes once, from 0. A peer with the old value requires a right to read instead of one to flush: it
//   flushes only memory that it could read anyway.
// - The owner's thread stores its ID in `liveness`, and the kernel adds FUTEX_OWNER_DIED when the thread ends. A peer
//   with the old value executes a request as if the owner had ended later. A value that an owner has forged affects
//   only its own peers, whose waits end with the connection to the owner.
struct arena_header {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t pid;
    token_bytes token;
    std::uint64_t start_time;
    std::uint64_t token_address;
};

// Stored after the header, when the owner determines the values.
struct arena_facts {
    std::atomic<std::uint32_t> uses_flush; // see shared_memory::uses_flush()
    // A robust futex of a thread that ends with its process: FUTEX_OWNER_DIED is set before the rest is released.
    std::atomic<std::uint32_t> liveness;
    std::atomic<std::uint32_t> enrolled; // see barriers::enroll()
};

inline constexpr std::size_t facts_offset = page / 2;

// A region or a bound window of the owner. Key k is in slot slot_index(k). Rows in docs/softrdma.md:
// `region_slot::generation`, the rows with `key`, `region_slot::unsynced`.
// - The owner writes all other members, and then `key`. A peer reads `key` first, so it finds the members of that key.
//   It reads each of them once, and checks its request against these values.
// - To remove a region, the owner clears `key`, executes a barrier, and waits for the peers that are inside an
//   operation on this region (`qp_block::epoch`, `region_in_use`). It changes the other members only after that wait.
// - A peer that reads `key` before it is cleared is one of those peers. The region is removed after its operation.
// - `generation` does not repeat. A peer compares it with that of its mapping of the file: a mapping of an earlier
//   region in this slot is never used.
// - `unsynced` is the only member that peers write. A false value costs the owner one write-back of the file when it
//   removes the region, or affects only data that the forging peer has stored.
struct alignas(cache_line) region_slot {
    std::atomic<std::uint32_t> key; // 0 if the slot is free
    std::atomic<std::uint32_t> access;
    std::atomic<std::uint64_t> generation; // number of registrations in this slot
    std::atomic<std::uint64_t> domain;     // protection domain
    std::atomic<std::uint64_t> base;       // first address in the region's own addressing
    std::atomic<std::uint64_t> length;
    std::atomic<std::uint64_t> address; // in the owner's address space
    std::atomic<region_kind> kind;
    std::atomic<std::uint32_t> unsynced; // 1: a peer has stored to the file since its last write-back
};

inline constexpr std::size_t tables_size = page + region_slots * sizeof(region_slot);

} // namespace softrdma

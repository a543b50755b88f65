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
// Must be raised with each change of shared memory: this file, transport/shared_layout.hpp and their protocol.
// Processes of different versions use TCP.
inline constexpr std::uint32_t arena_version = 9;
struct arena_header {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t pid;
    token_bytes token;
    std::uint64_t start_time;
    std::uint64_t token_address; // address of a copy in the owner's memory, to test process_vm_readv
};

// Stored after the header, when the owner determines the values.
struct arena_facts {
    std::atomic<std::uint32_t> uses_flush; // see shared_memory::uses_flush()
    // A robust futex of a thread that ends with its process: FUTEX_OWNER_DIED is set before the rest is released.
    std::atomic<std::uint32_t> liveness;
    std::atomic<std::uint32_t> enrolled; // see barriers::enroll()
};

inline constexpr std::size_t facts_offset = page / 2;

// Region `key` is described in slot slot_index(key). Its owner publishes the key last and clears it first, then waits
// for peers that are inside an operation (qp_block::epoch).
struct alignas(cache_line) region_slot {
    std::atomic<std::uint32_t> key; // 0 if the slot is free
    std::atomic<std::uint32_t> access;
    std::atomic<std::uint64_t> generation; // number of registrations in this slot
    std::atomic<std::uint64_t> domain;     // protection domain
    std::atomic<std::uint64_t> base;       // first address in the region's own addressing
    std::atomic<std::uint64_t> length;
    std::atomic<std::uint64_t> address; // in the owner's address space
    std::atomic<region_kind> kind;
    std::atomic<std::uint32_t> unsynced; // a peer has stored to pages of the file since its last write-back
};

inline constexpr std::size_t tables_size = page + region_slots * sizeof(region_slot);

} // namespace softrdma

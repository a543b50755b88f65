// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"

#include <memory>

namespace softrdma
{

// A block of the memory that a process shares. Released with its last reference.
class block
{
public:
    block(std::byte *where, std::uint64_t from, std::size_t bytes) noexcept : at(where), offset(from), size(bytes) {}
    virtual ~block() = default;
    block(const block &) = delete;

    std::byte *at;              // NULL until it is mapped
    const std::uint64_t offset; // offset at which peers find it
    const std::size_t size;
};

struct published_region {
    std::uint32_t key;
    std::uint64_t domain; // protection domain
    std::uint32_t access;
    std::uint64_t base; // first address in the region's own addressing
    std::uint64_t length;
    std::uint64_t address; // in this process
    region_kind kind;
};

// Memory, shared or private, for state that peers read. An interface, because verbs/ is below transport/shm.
class shared_memory
{
public:
    virtual ~shared_memory() = default;

    // Returns zeroed memory. Returns NULL and sets errno if no memory is left.
    virtual std::shared_ptr<block> allocate(std::size_t size) = 0;
    virtual std::uint64_t next_serial() noexcept = 0; // unique, never 0

    // Only one of the regions with the same slot_index() may be published at a time.
    virtual void publish(const published_region &region) noexcept = 0;
    // Later lookups of peers do not find the region; a peer that found it before may still be using it.
    virtual void withdraw(std::uint32_t key) noexcept = 0;
    // Returns whether a peer has stored to pages of the withdrawn region's file that are not written back yet.
    virtual bool has_unsynced(std::uint32_t key) const noexcept = 0;

    virtual std::atomic<std::uint32_t> &uses_flush() noexcept = 0; // see rights_to_flush()
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"

#include <memory>

namespace softrdma::local
{

// A piece of what a process shares. It goes back with its last user.
class block
{
public:
    block(std::byte *where, std::uint64_t from, std::size_t bytes) noexcept : at(where), offset(from), size(bytes) {}
    virtual ~block() = default;
    block(const block &) = delete;
    block &operator=(const block &) = delete;

    std::byte *at;              // NULL until it is mapped
    const std::uint64_t offset; // by which peers find it
    const std::size_t size;
};

// A region as peers see it.
struct published_region {
    std::uint32_t key;
    std::uint64_t domain; // protection domain
    std::uint32_t access;
    std::uint64_t base; // first address in the region's own addressing
    std::uint64_t length;
    std::uint64_t address; // in this process
    region_kind kind;
};

// Where the objects of a device publish what peers may act on. A device is given one when it is opened; where nobody
// shares anything it is ordinary memory.
class shared_memory
{
public:
    virtual ~shared_memory() = default;

    // Zeroed. NULL with errno when there is no memory.
    virtual std::shared_ptr<block> allocate(std::size_t size) = 0;
    // Never the same twice, and never 0.
    virtual std::uint64_t next_serial() noexcept = 0;

    // Of two regions whose keys have the same slot_index() only one may be published.
    virtual void publish(const published_region &region) noexcept = 0;
    // No peer finds the region afterwards; one that has found it before may still be inside an operation on it.
    virtual void withdraw(std::uint32_t key) noexcept = 0;
    // Whether a peer has stored into pages of the withdrawn region's file that nobody has written back.
    virtual bool has_unsynced(std::uint32_t key) const noexcept = 0;

    // Not 0 once this program has named FLUSH, see rights_to_flush().
    virtual std::atomic<std::uint32_t> &knows_flush() noexcept = 0;
};

} // namespace softrdma::local

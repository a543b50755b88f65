// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pmem/dirty_ranges.hpp"
#include "verbs/mr.hpp"
#include "verbs/wqe.hpp"
#include "wire/packet.hpp"

#include <span>

namespace softrdma
{

// What of a peer's request says where in our memory it is to be executed.
struct remote_range {
    std::uint32_t rkey;
    std::uint64_t addr;
    std::uint32_t length;
};

// Executes what the peer of a queue pair asks for in our memory, and knows what of it is not durable yet. Used by one
// thread at a time, which need not have a lock. `access` is what the queue pair grants. The answers are syndromes.
class remote_access
{
public:
    explicit remote_access(const ibv_qp &qp) noexcept : qp_(qp) {}

    // What the peer may use with all of that access. The range `region_table::any_address` of no bytes lies inside all.
    region_pin find(std::uint32_t rkey, int access, std::uint64_t addr, std::uint64_t bytes) const;
    // A part of a WRITE to that range, which begins `offset` bytes after its beginning and lies inside it.
    std::uint8_t write(unsigned access, const remote_range &to, std::uint32_t offset, std::span<const std::byte> from);
    std::uint8_t write_word(unsigned access, std::uint32_t rkey, std::uint64_t addr, const std::byte *from);
    // Whether the range may be read. What a READ follows is durable before it is answered.
    std::uint8_t check_read(unsigned access, const remote_range &from);
    // FETCH AND ADD or COMPARE AND SWAP; `original` is what was found.
    std::uint8_t operate(unsigned access, std::uint32_t rkey, std::uint64_t addr, const atomic_args &args, bool adds,
            std::uint64_t &original);
    std::uint8_t flush(unsigned access, std::uint32_t rkey, std::uint64_t addr, const flush_args &args);
    // A part of a message, into the elements of a receive of that domain. False if one is not there.
    bool scatter(
            const ibv_pd *pd, std::span<const ibv_sge> sges, std::uint64_t offset, std::span<const std::byte> from);

private:
    std::uint8_t make_durable();
    void note_store(const region_pin &pin, std::byte *begin, std::size_t bytes);

    const ibv_qp &qp_;
    pmem::dirty_ranges<memory_region> dirty_;
};

// With which status a request ends that was answered with that syndrome of an error.
ibv_wc_status status_of(std::uint8_t code) noexcept;

} // namespace softrdma

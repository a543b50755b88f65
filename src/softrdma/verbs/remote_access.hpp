// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "pmem/dirty_ranges.hpp"
#include "verbs/mr.hpp"
#include "verbs/wqe.hpp"
#include "wire/packet.hpp"

#include <span>

namespace softrdma
{

// Location in local memory at which a request of the peer is executed.
struct remote_range {
    std::uint32_t rkey;
    std::uint64_t addr;
    std::uint32_t length;
};

// Executes requests of the peer of a queue pair in local memory, and tracks which stores are not durable yet. Used by
// one thread at a time, which needs no lock. `access` is the access that the queue pair grants. Returns syndromes.
class remote_access
{
public:
    explicit remote_access(const ibv_qp &qp) noexcept : qp_(qp) {}

    // Pins the range if the peer has all of that access, like region_table::pin().
    region_pin find(std::uint32_t rkey, int access, std::uint64_t addr, std::uint64_t bytes) const;
    // Executes part of a WRITE to the range, starting at `offset` and inside the range.
    std::uint8_t write(unsigned access, const remote_range &to, std::uint32_t offset, std::span<const std::byte> from);
    std::uint8_t write_word(unsigned access, std::uint32_t rkey, std::uint64_t addr, const std::byte *from);
    // Checks whether the range may be read. Makes stores durable before the response if the READ acts as a flush.
    std::uint8_t check_read(unsigned access, const remote_range &from);
    // Executes a FETCH AND ADD or COMPARE AND SWAP; `original` receives the old value.
    std::uint8_t operate(unsigned access, std::uint32_t rkey, std::uint64_t addr, const atomic_args &args, bool adds,
            std::uint64_t &original);
    std::uint8_t flush(unsigned access, std::uint32_t rkey, std::uint64_t addr, const flush_args &args);
    // Places part of a message in a receive of that domain. Returns false if an element has no region.
    bool scatter(
            const ibv_pd *pd, std::span<const ibv_sge> sges, std::uint64_t offset, std::span<const std::byte> from);

private:
    template<typename Store>
    std::uint8_t store_word(unsigned access, int right, std::uint32_t rkey, std::uint64_t addr, Store store);
    std::uint8_t make_durable();
    void mark_dirty(const region_pin &pin, std::byte *begin, std::size_t bytes);

    const ibv_qp &qp_;
    pmem::dirty_ranges<memory_region> dirty_;
};

ibv_wc_status status_of(std::uint8_t code) noexcept; // status of a request that failed with this syndrome

} // namespace softrdma

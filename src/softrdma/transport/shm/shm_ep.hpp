// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"
#include "base/read_section.hpp"
#include "pmem/dirty_ranges.hpp"
#include "transport/request_path.hpp"
#include "transport/shm/file_mapping.hpp"
#include "transport/shm/peer.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/wqe.hpp"

#include <array>
#include <optional>
#include <utility>

namespace softrdma
{

struct message {
    std::uint32_t length = 0;
    std::uint32_t imm_data = 0;
    std::uint8_t flags = 0; // slot_solicited, slot_immediate, slot_write
};

// The peer's completion queue, as far as this process may access it.
class remote_cq
{
public:
    // NULL if the offset is not that of a completion queue of the peer, which has passed `completion_fd` for it.
    static std::shared_ptr<remote_cq> open(
            const std::shared_ptr<peer_process> &peer, std::uint64_t offset, unique_fd completion_fd);

    // Reserves an entry. Returns false if the queue is full: its owner must then detect the overflow.
    bool reserve() noexcept;
    void release_entry() noexcept;                                       // entry without a message
    void announce(std::uint32_t bit) noexcept { block_->announce(bit); } // lets the peer find a published message
    void wake(bool solicited);

private:
    std::shared_ptr<peer_process> peer_;
    std::shared_ptr<std::byte> memory_;
    cq_block *block_ = nullptr;
    unique_fd completion_fd_; // empty if the peer needs no events
};

// The peer's queue pair on this host: executes requests in its memory, inside a section of the local queue pair.
class alignas(cache_line) shm_ep final : public shm_peer, public request_path
{
public:
    // Opens a queue pair of this process; `ends`: those of the local connection. Returns NULL and stores the reason.
    static std::shared_ptr<shm_ep> open(const shm_address &h, const connection_ends &ends, std::string &reason);
    // Opens a queue pair of the process that passed these descriptors.
    static std::shared_ptr<shm_ep> open(
            const shm_address &h, const connection_ends &ends, handover passed, std::string &reason);
    ~shm_ep() override;

    reader reader_of_peer() const noexcept override;
    std::shared_ptr<request_path> open_path(qp_block &own, ibv_pd *pd) override;

    post_result post(const wqe &w) override;
    bool is_unsupported(const wqe &w) const noexcept override;
    // The peer will execute the request, and make durable what it stored.
    void on_network_fallback(const wqe &w) noexcept override
    {
        if (w.op != native::wr_flush)
            peer_has_dirty_ = w.op != IBV_WR_RDMA_READ;
    }
    void peer_consumed_receive() noexcept override { go_to(position_ + 1); }
    bool request_receive_event() noexcept override;
    std::uint32_t peer_rnr_timer() const noexcept override { return block_->rnr_timer.load(std::memory_order_relaxed); }
    // A program that sent since it posted its last receive likely sends again: prefetches the peer's receive.
    void on_receive_posted() noexcept override
    {
        if (std::exchange(sent_, false))
            fetch_to_store(slot_);
    }
    bool needs_network_for_private_memory() const noexcept override { return !peer_->is_open(); }

    // Finds the memory of the peer, copies, and records stores that are not durable yet. A long copy has parts, between
    // which it stops if the queue pair is closed or the region removed: the peer waits for one part at most.
    copy_result write(std::uint32_t key, std::uint64_t va, std::span<const iovec> from, std::uint32_t length)
    {
        remote_region r;
        if (!grants(IBV_ACCESS_REMOTE_WRITE))
            return copy_result::unsupported;
        if (length == 0)
            return copy_result::done;
        if (!find(key, IBV_ACCESS_REMOTE_WRITE, va, length, r))
            return copy_result::unsupported;
        const copy_result result =
                length <= max_part ? write_part(r, from) : copy_in_parts(&shm_ep::write_part, r, from, length);
        if (result == copy_result::done && r.kind != region_kind::unmappable)
            record_store(r, length);
        return result;
    }
    copy_result read(std::uint32_t key, std::uint64_t va, std::span<const iovec> to, std::uint32_t length)
    {
        remote_region r;
        if (!grants(IBV_ACCESS_REMOTE_READ))
            return copy_result::unsupported;
        if (length == 0)
            return copy_result::done;
        if (!find(key, IBV_ACCESS_REMOTE_READ, va, length, r))
            return copy_result::unsupported;
        return length <= max_part ? read_part(r, to) : copy_in_parts(&shm_ep::read_part, r, to, length);
    }
    bool has_receive() const noexcept { return slot_->posted.load(std::memory_order_seq_cst) == position_ + 1; }
    // Delivers a message to a receive. Returns false if only the peer itself can place the message.
    bool deliver(const message &m, std::span<const iovec> from);

private:
    static std::shared_ptr<shm_ep> open(std::shared_ptr<peer_process> peer, const shm_address &h,
            const connection_ends &ends, unique_fd completion_fd, std::string &reason);
    bool attach(const shm_address &h, const connection_ends &ends, unique_fd completion_fd, std::string &reason);
    bool peer_is_open() const noexcept
    {
        return block_->state.load(std::memory_order_seq_cst) == state_word(connection_, true) && !peer_->dead();
    }
    bool grants(int access) const noexcept
    {
        return (static_cast<int>(block_->access.load(std::memory_order_relaxed)) & access) == access;
    }
    // Collects the local memory segments of a request. Returns false if one is not registered.
    bool collect(const wqe &w, int access, std::span<const iovec> &segments);
    post_result write(const wqe &w);
    post_result read(const wqe &w);
    post_result without_receive(const wqe &w);
    post_result send(const wqe &w);
    post_result write_and_notify(const wqe &w);
    post_result deliver(const wqe &w, std::uint8_t kind, std::span<const iovec> from);
    post_result write_word(const wqe &w);
    post_result flush(const wqe &w);
    bool make_durable(); // recorded stores; returns false on error
    bool find(std::uint32_t key, int access, std::uint64_t va, std::uint64_t bytes, remote_region &out) const noexcept
    {
        // A thread that removes the region reads this word after a barrier for both sides.
        region_in_use_->store(key, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return peer_->find(key, domain_, own_domain_, access, va, bytes, out);
    }
    // Returns the peer's file behind a region, which is then `recent_`; NULL if none is available.
    file_mapping *mapping(const remote_region &r)
    {
        if (r.kind != region_kind::shared_file && r.kind != region_kind::direct_access)
            return nullptr;
        const bool is_recent = recent_ != nullptr && recent_slot_ == r.slot && recent_generation_ == r.generation;
        return is_recent ? recent_.get() : lookup_mapping(r);
    }
    // By value, so that callers on the fast path can keep a region in registers.
    file_mapping *lookup_mapping(remote_region r);
    copy_result write_part(const remote_region &r, std::span<const iovec> from)
    {
        file_mapping *file = mapping(r);
        if (file == nullptr)
            return write_unmapped(r, from);
        return file->write(r.address - r.region_address, from) ? copy_result::done : copy_result::fault;
    }
    void record_store(const remote_region &r, std::uint32_t bytes);
    copy_result write_unmapped(remote_region r, std::span<const iovec> from) const;
    copy_result read_part(const remote_region &r, std::span<const iovec> to);
    using part_copy = copy_result (shm_ep::*)(const remote_region &, std::span<const iovec>);
    copy_result copy_in_parts(part_copy copy, remote_region r, std::span<const iovec> list, std::uint32_t length);
    bool peer_is_enrolled() const noexcept { return peer_->facts().enrolled.load(std::memory_order_relaxed) != 0; }
    void go_to(std::uint64_t position) noexcept
    {
        position_ = position;
        slot_ = reinterpret_cast<receive_slot *>(slots_ + (position & mask_) * stride_);
    }
    // Position in the bounce buffer at which a message can start; empty until the peer has taken enough messages.
    std::optional<std::uint32_t> bounce_buffer_space(std::uint32_t length) noexcept;
    void prefetch_space(std::uint32_t length) noexcept;
    bool place(const receive_slot &s, std::uint32_t length, std::span<const iovec> from);
    bool publish(receive_slot &s, std::uint64_t token) const noexcept;

    static constexpr std::uint32_t max_part = 1 << 20;

    qp_block *block_ = nullptr;
    std::atomic<std::uint32_t> *region_in_use_ = &unpublished_region_;
    std::atomic<std::uint32_t> *epoch_ = nullptr;
    std::shared_ptr<peer_process> peer_;
    std::uint64_t connection_ = 0; // the peer's number of the connection
    std::uint32_t recent_slot_ = 0;
    std::uint64_t recent_generation_ = 0;
    std::shared_ptr<file_mapping> recent_;
    pmem::dirty_ranges<file_mapping> unsynced_;
    bool peer_has_dirty_ = false;    // stores that only the peer can make durable
    std::uint64_t local_domain_ = 0; // protection domain of the local queue pair
    const region_table &regions_ = region_table::instance();
    std::array<iovec, limits::max_sge> segments_;
    // Checked copies of values that the peer could change later.
    std::uint64_t domain_ = 0;
    std::uint64_t own_domain_ = 0;
    std::uint32_t capacity_ = 1;
    std::uint64_t mask_ = 0; // mask of positions
    std::uint32_t stride_ = 0;
    std::uint32_t max_sge_ = 0;
    std::uint32_t cq_bit_ = 0;
    bool lent_ = false; // the peer lends receives from a shared queue, which may contain more
    std::uint64_t position_ = 0;
    std::byte *slots_ = nullptr;
    receive_slot *slot_ = nullptr; // slot of that position
    bool sent_ = false;            // a message was sent since a receive was posted
    std::uint32_t bcopy_threshold_ = 0;
    std::uint32_t bounced_ = 0;     // position of the writer in the bounce buffer
    std::uint32_t bounced_out_ = 0; // last known position of the reader in the bounce buffer
    std::byte *bounce_buffer_ = nullptr;
    std::shared_ptr<std::byte> memory_;
    std::shared_ptr<remote_cq> cq_;
    reader_list::entry watched_{};
    bool watching_ = false;
    std::atomic<std::uint32_t> unpublished_region_{0};
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "transport/shared_memory.hpp"

#include <algorithm>
#include <bit>
#include <infiniband/verbs.h>
#include <new>
#include <span>

namespace softrdma
{

// The owner's half of the protocol of receive_slot, of which shm_ep is the peer's: publishes the receives of a queue
// pair and reads the messages that its peer delivers. Not an interface: there is one layout, and posts and polls inline
// the calls. The caller holds the locks that receive_queue describes.
class receive_slots
{
public:
    explicit receive_slots(const ring_start &start) noexcept : tokens_(start.tokens), first_bounced_(start.bounced) {}

    // Allocates words, slots and bounce buffer; the caller sets the other words. Returns false if no memory is left.
    bool create(shared_memory &memory, std::uint32_t capacity, std::uint32_t max_sge)
    {
        SOFTRDMA_ASSERT(std::has_single_bit(capacity));
        mask_ = capacity - 1;
        stride_ = whole_lines(sizeof(receive_slot) + max_sge * sizeof(slot_sge));
        block_ = memory.allocate(block_size(capacity, stride_));
        if (block_ == nullptr)
            return false;
        words_ = new (block_->at + words_offset(block_->offset)) qp_block{};
        slots_ = block_->at + ring_offset;
        words_->magic = qp_magic;
        words_->ring_capacity = capacity;
        words_->ring_stride = stride_;
        words_->max_sge = max_sge;
        words_->bounced_out.store(first_bounced_, std::memory_order_relaxed);
        return true;
    }
    bool valid() const noexcept { return block_ != nullptr; }
    qp_block &words() const noexcept { return *words_; }
    const std::shared_ptr<block> &memory() const noexcept { return block_; }
    std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(mask_ + 1); }
    std::size_t index(std::uint64_t position) const noexcept { return position & mask_; }

    void prefetch(std::uint64_t position) const noexcept { fetch_to_store(&slot(position)); }
    // Writes a receive into its slot. publish() must follow, unless the slot is published with the same contents again.
    void describe(std::uint64_t position, std::span<const ibv_sge> sges, std::uint32_t bytes, bool owner_only) noexcept
    {
        SOFTRDMA_ASSERT(sizeof(receive_slot) + sges.size() * sizeof(slot_sge) <= stride_);
        receive_slot &to = slot(position);
        std::transform(sges.begin(), sges.end(), to.sges(), [](const ibv_sge &sge) {
            return slot_sge{sge.addr, sge.length, sge.lkey};
        });
        to.capacity = bytes;
        to.sge_count = static_cast<std::uint16_t>(sges.size());
        to.owner_only = owner_only ? 1 : 0;
    }
    void publish(std::uint64_t position) noexcept
    {
        SOFTRDMA_ASSERT((position & token_bit) == 0);
        slot(position).posted.store(position + 1, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst); // see shm_ep::request_receive_event()
    }
    // Called before publish() for a receive of a shared queue. Returns the token, which reclaim() requires.
    std::uint64_t lend(std::uint64_t position) noexcept
    {
        const std::uint64_t token = next_token();
        slot(position).done.store(token, std::memory_order_release);
        return token;
    }
    // Withdraws a lent receive. Returns false if it has a message. A peer that reads the new token in `done` finds no
    // posted receive; one that has read the old token fails to deliver, or has already delivered.
    bool reclaim(std::uint64_t position, std::uint64_t token) noexcept
    {
        SOFTRDMA_ASSERT((token & token_bit) != 0);
        receive_slot &s = slot(position);
        s.posted.store(0, std::memory_order_release);
        return s.done.compare_exchange_strong(token, next_token(), std::memory_order_seq_cst);
    }
    // After this call, the peer sends its message for that receive over the network.
    void leave_to_owner(std::uint64_t position) noexcept
    {
        __atomic_store_n(&slot(position).owner_only, 1, __ATOMIC_RELAXED);
    }

    bool has_message(std::uint64_t position) const noexcept
    {
        return slot(position).done.load(std::memory_order_seq_cst) == position + 1;
    }
    // The peer's description of a message. The peer may change it at any time: each word is read once, then checked.
    struct message {
        explicit message(const receive_slot &from) noexcept
            : flags(load(from.flags)), length(load(from.length)), imm_data(load(from.imm_data)),
              bounced(load(from.bounced))
        {
        }
        bool has(slot_flags flag) const noexcept { return (flags & flag) != 0; }
        bool is_outside_buffers() const noexcept { return has(slot_inlined) || has(slot_bounced); }

        const std::uint8_t flags;
        const std::uint32_t length;
        const std::uint32_t imm_data;
        const std::uint32_t bounced;

    private:
        template<typename T>
        static T load(const T &word) noexcept
        {
            return __atomic_load_n(&word, __ATOMIC_RELAXED);
        }
    };
    message read(std::uint64_t position) const noexcept { return message(slot(position)); }
    // Returns the data of a message in its slot or in the bounce buffer; NULL if the peer's description is invalid.
    const std::byte *data(std::uint64_t position, const message &m) const noexcept
    {
        if (!m.has(slot_bounced))
            return m.length <= inline_size ? slot(position).inlined.data() : nullptr;
        const std::uint32_t offset = m.bounced % bounce_buffer_size;
        const bool is_inside = m.length <= bounce_buffer_size - offset;
        return is_inside ? block_->at + bounce_buffer_offset(capacity(), stride_) + offset : nullptr;
    }
    void release(const message &m) noexcept // the data was copied: the peer may overwrite it
    {
        if (m.has(slot_bounced))
            words_->bounced_out.store(m.bounced + whole_lines(m.length), std::memory_order_release);
    }

private:
    receive_slot &slot(std::uint64_t position) const noexcept
    {
        return *reinterpret_cast<receive_slot *>(slots_ + (position & mask_) * stride_);
    }
    std::uint64_t next_token() noexcept { return token_bit | ++tokens_; }

    std::shared_ptr<block> block_;
    qp_block *words_ = nullptr;
    std::byte *slots_ = nullptr;
    std::uint64_t mask_ = 0; // mask of positions; the capacity is a power of two
    std::uint32_t stride_ = 0;
    std::uint64_t tokens_;
    const std::uint32_t first_bounced_;
};

} // namespace softrdma

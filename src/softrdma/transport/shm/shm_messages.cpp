// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/guard.hpp"
#include "transport/shm/shm_ep.hpp"

#include <cstring>
#include <fcntl.h>

namespace softrdma
{

namespace
{

// Bytes of a message in the cache line that the peer polls.
constexpr std::uint32_t in_first_line = cache_line - offsetof(receive_slot, inlined);

// Maximum length for which the lines of the next message are prefetched. A SEND of 4 KiB then takes 930 ns instead of
// 1160 on Intel CPUs, but 370 ns instead of 270 on AMD CPUs, where the next accesses of the program wait for the lines.
constexpr std::uint32_t max_prefetch = 4096;

void gather(std::byte *to, std::span<const iovec> from) noexcept
{
    if (from.size() == 1 && from[0].iov_len == sizeof(std::uint64_t)) // most notifications are one word
        memcpy(to, from[0].iov_base, sizeof(std::uint64_t));
    else
        gather_segments(to, from);
}

} // namespace

std::shared_ptr<remote_cq> remote_cq::open(
        const std::shared_ptr<peer_process> &peer, std::uint64_t offset, unique_fd passed_fd)
{
    auto cq = std::make_shared<remote_cq>();
    cq->peer_ = peer;
    cq->memory_ = peer->share(offset, sizeof(cq_block));
    if (cq->memory_ == nullptr)
        return nullptr;
    cq->block_ = reinterpret_cast<cq_block *>(cq->memory_.get());
    if (cq->block_->magic != cq_magic)
        return nullptr;
    const int completion_fd = cq->block_->event_fd.load(std::memory_order_relaxed);
    if (completion_fd >= 0)
        cq->completion_fd_ =
                peer->is_self() ? unique_fd(fcntl(completion_fd, F_DUPFD_CLOEXEC, 0)) : std::move(passed_fd);
    return completion_fd < 0 || cq->completion_fd_.get() >= 0 ? cq : nullptr;
}

bool remote_cq::reserve() noexcept
{
    if (block_->counted.load(std::memory_order_relaxed) == 0)
        return true;
    const auto capacity = static_cast<std::int32_t>(block_->capacity.load(std::memory_order_relaxed));
    if (block_->used.fetch_add(1, std::memory_order_relaxed) < capacity)
        return true;
    block_->used.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

void remote_cq::release_entry() noexcept
{
    if (block_->counted.load(std::memory_order_relaxed) != 0)
        block_->used.fetch_sub(1, std::memory_order_relaxed);
}

void remote_cq::wake(bool solicited)
{
    const std::uint64_t arming = block_->event_due(solicited);
    if (arming == 0 || !takes_event(completion_fd_.get()))
        return;
    // The event is signaled before it is marked as signaled: a sender that ends in between loses no event.
    put_event(completion_fd_.get());
    block_->signaled.store(arming, std::memory_order_release);
}

// The barrier is executed for the peer too, which posts a receive and then reads the request without a barrier.
bool shm_ep::request_receive_event() noexcept
{
    const read_section section(*epoch_);
    if (!peer_is_open())
        return true;
    if (block_->receive_requested.exchange(1, std::memory_order_seq_cst) == 0)
        barriers::execute_between_processes(peer_is_enrolled());
    return has_receive();
}

std::optional<std::uint32_t> shm_ep::bounce_buffer_space(std::uint32_t length) noexcept
{
    SOFTRDMA_ASSERT(length <= max_bounced && bounced_ % cache_line == 0);
    std::uint32_t begin = bounced_;
    if (const std::uint32_t ahead = bounce_buffer_size - begin % bounce_buffer_size; ahead < length)
        begin += ahead;
    SOFTRDMA_ASSERT(begin % bounce_buffer_size + length <= bounce_buffer_size); // contiguous
    const std::uint32_t end = begin + length;
    if (end - bounced_out_ > bounce_buffer_size)
        bounced_out_ = block_->bounced_out.load(std::memory_order_acquire);
    return end - bounced_out_ > bounce_buffer_size ? std::nullopt : std::optional(begin);
}

// Prefetches lines for a next message of the same length. Out of line, so that short messages are not slowed down.
[[gnu::noinline]] void shm_ep::prefetch_space(std::uint32_t length) noexcept
{
    if (length > max_prefetch)
        return;
    if (length <= inline_size) {
        const auto *next = reinterpret_cast<const std::byte *>(slot_);
        fetch_to_store(next + cache_line, offsetof(receive_slot, inlined) + length - cache_line);
    } else if (const auto space = bounce_buffer_space(length)) {
        fetch_to_store(bounce_buffer_ + *space % bounce_buffer_size, length);
    }
}

// Publishes the message. Returns false if the lent receive of that token was reclaimed.
bool shm_ep::publish(receive_slot &s, std::uint64_t token) const noexcept
{
    if (lent_)
        return s.done.compare_exchange_strong(token, position_ + 1, std::memory_order_seq_cst);
    s.done.store(position_ + 1, std::memory_order_seq_cst);
    return true;
}

// Inlined into its main caller: a call would delay the response to the message.
bool shm_ep::deliver(const message &m, std::span<const iovec> from)
{
    receive_slot &s = *slot_;
    const std::uint64_t token = s.done.load(std::memory_order_acquire);
    if (lent_ && !has_receive()) // later reads of the slot belong to the receive of `token`
        return false;
    std::uint8_t flags = m.flags;
    std::uint32_t bounced = bounced_;
    if ((flags & slot_write) == 0) {
        if (__atomic_load_n(&s.owner_only, __ATOMIC_RELAXED) != 0 || m.length > s.capacity)
            return false;
        if (m.length <= inline_size) {
            flags |= slot_inlined;
            if (!guarded([&] { gather(s.inlined.data(), from); }))
                return false;
        } else if (const auto space = m.length <= bcopy_threshold_ ? bounce_buffer_space(m.length) : std::nullopt) {
            flags |= slot_bounced;
            if (!guarded([&] { gather(bounce_buffer_ + *space % bounce_buffer_size, from); }))
                return false;
            s.bounced = *space;
            bounced = *space + whole_lines(m.length);
        } else if (lent_ || !place(s, m.length, from)) { // a lent receive belongs to the peer until it has a message
            return false;
        }
    }
    if (!cq_->reserve())
        return false;
    s.length = m.length;
    s.imm_data = m.imm_data;
    s.flags = flags;
    if (!publish(s, token)) {
        cq_->release_entry();
        return false;
    }
    bounced_ = bounced;
    go_to(position_ + 1);
    sent_ = true;
    if (block_->watched.load(std::memory_order_seq_cst) == 0)
        cq_->announce(cq_bit_);
    cq_->wake((flags & slot_solicited) != 0);
    if (m.length > in_first_line && (flags & (slot_inlined | slot_bounced)) != 0)
        prefetch_space(m.length);
    return true;
}

} // namespace softrdma

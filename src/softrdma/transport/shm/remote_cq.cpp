// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/remote_cq.hpp"
#include "base/put_event.hpp"

#include <fcntl.h>

namespace softrdma
{

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

void remote_cq::announce(std::uint32_t bit, bool watched) noexcept
{
    if (!watched)
        block_->announce(bit);
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

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <cstdint>
#include <memory>

namespace softrdma
{

// The peer's completion queue, as far as this process may access it.
class remote_cq
{
public:
    // NULL if the offset is not that of a completion queue of the peer, which has passed `completion_fd` for it.
    static std::shared_ptr<remote_cq> open(
            const std::shared_ptr<peer_process> &peer, std::uint64_t offset, unique_fd completion_fd);

    // Reserves an entry. Returns false if the queue is full: its owner must then detect the overflow.
    bool reserve() noexcept;
    void release_entry() noexcept; // entry without a message
    // Lets the peer find a message that was published.
    void announce(std::uint32_t bit, bool watched) noexcept;
    void wake(bool solicited);

private:
    std::shared_ptr<peer_process> peer_;
    std::shared_ptr<std::byte> memory_;
    cq_block *block_ = nullptr;
    unique_fd completion_fd_; // empty if the peer needs no events
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/reserve.hpp"

#include <chrono>
#include <deque>
#include <memory>

namespace softrdma
{

// A peer that has connected to this process.
class pending_peer
{
public:
    virtual ~pending_peer() = default;
    // Ends the connection.
    virtual void drop() = 0;
};

// Unauthenticated peers, whose first message has not arrived: each uses a descriptor, and any process can connect.
// Beyond a fixed number, the oldest is disconnected in favor of the next one, and so is a peer that sends nothing in
// time.
class pending_peers
{
public:
    // Adds a peer; its messages must not be read before this returns. Without memory for the list, the peer is
    // disconnected. Returns the time for which the next one must remain in the kernel's queue. A newly accepted peer is
    // thus not disconnected before its first message can be read.
    std::chrono::milliseconds add(const std::shared_ptr<pending_peer> &peer);
    // Time until the next one can be accepted.
    std::chrono::milliseconds pause();
    // Called when the first message of the peer has arrived. Returns false if the peer was disconnected.
    bool remove(const std::shared_ptr<pending_peer> &peer);

private:
    using clock = std::chrono::steady_clock;
    struct entry {
        std::weak_ptr<pending_peer> peer;
        clock::time_point since;
    };

    // Returns NULL if fewer than `most` peers are in the list.
    std::shared_ptr<pending_peer> take_oldest(std::size_t most);

    ordered_mutex mutex_{lock_level::leaf};
    std::deque<entry, reserve::allocator<entry>> peers_ GUARDED_BY(mutex_); // the oldest first
};

} // namespace softrdma

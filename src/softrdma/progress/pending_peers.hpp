// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/reserve.hpp"

#include <chrono>
#include <deque>
#include <memory>

namespace softrdma
{

class pending_peer
{
public:
    virtual ~pending_peer() = default;
    virtual void drop() = 0;
};

// Peers before their first message: any process can connect. Disconnects silent ones, and the oldest beyond a limit.
class pending_peers
{
public:
    // Adds a peer, or disconnects it if memory is exhausted. Returns the delay before the next peer is accepted.
    std::chrono::milliseconds add(const std::shared_ptr<pending_peer> &peer);
    std::chrono::milliseconds pause(); // delay before the next peer is accepted
    // Called when the first message of the peer has arrived. Returns false if the peer was disconnected.
    bool remove(const std::shared_ptr<pending_peer> &peer);

private:
    using clock = std::chrono::steady_clock;
    struct entry {
        std::weak_ptr<pending_peer> peer;
        clock::time_point since;
    };

    // Returns NULL if fewer than `limit` peers are in the list.
    std::shared_ptr<pending_peer> take_oldest(std::size_t limit);

    ordered_mutex mutex_{lock_level::leaf};
    std::deque<entry, reserve::allocator<entry>> peers_ GUARDED_BY(mutex_); // the oldest first
};

} // namespace softrdma

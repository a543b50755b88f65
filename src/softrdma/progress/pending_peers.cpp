// SPDX-License-Identifier: BSD-3-Clause
#include "progress/pending_peers.hpp"
#include "base/log.hpp"
#include "progress/event_loop.hpp"

#include <algorithm>
#include <sys/resource.h>

namespace softrdma
{

constexpr auto first_message_time = std::chrono::seconds(2); // a peer sends it as soon as it is connected
constexpr auto min_time = std::chrono::milliseconds(100);    // minimum time for each peer

// An eighth of the descriptor limit of the program, if that is small.
static std::size_t max_pending() noexcept
{
    constexpr rlim_t max_peers = 128;
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return static_cast<std::size_t>(known ? std::clamp<rlim_t>(limit.rlim_cur / 8, 1, max_peers) : max_peers);
}

std::chrono::milliseconds pending_peers::add(const std::shared_ptr<pending_peer> &peer)
{
    const std::size_t limit = max_pending();
    while (const auto oldest = take_oldest(limit)) {
        log::write(log::level::info, "peer disconnected before its first message: %zu others are pending", limit);
        oldest->drop();
    }
    try {
        event_loop::get()->after(first_message_time, [this, weak = std::weak_ptr(peer)] {
            const auto silent = weak.lock();
            if (silent == nullptr || !remove(silent))
                return;
            log::write(log::level::info, "peer disconnected: no message within %d s (not a peer of this device?)",
                    static_cast<int>(first_message_time.count()));
            silent->drop();
        });
        {
            const lock_guard lock(mutex_);
            peers_.push_back({peer, clock::now()});
        }
        return pause();
    } catch (const std::bad_alloc &) {
        peer->drop();
        return min_time;
    }
}

std::chrono::milliseconds pending_peers::pause()
{
    const std::size_t limit = max_pending();
    const lock_guard lock(mutex_);
    if (peers_.size() < limit)
        return std::chrono::milliseconds(0);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(peers_.front().since + min_time - clock::now());
    return std::max(wait, std::chrono::milliseconds(0));
}

std::shared_ptr<pending_peer> pending_peers::take_oldest(std::size_t limit)
{
    const lock_guard lock(mutex_);
    std::erase_if(peers_, [](const entry &e) { return e.peer.expired(); });
    std::shared_ptr<pending_peer> oldest;
    for (; oldest == nullptr && peers_.size() >= limit; peers_.pop_front())
        oldest = peers_.front().peer.lock();
    return oldest;
}

bool pending_peers::remove(const std::shared_ptr<pending_peer> &peer)
{
    const lock_guard lock(mutex_);
    return std::erase_if(peers_,
                   [&](const entry &e) { return !e.peer.owner_before(peer) && !peer.owner_before(e.peer); }) != 0;
}

} // namespace softrdma

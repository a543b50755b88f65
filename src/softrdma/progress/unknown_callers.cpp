// SPDX-License-Identifier: BSD-3-Clause
#include "progress/unknown_callers.hpp"
#include "base/log.hpp"
#include "progress/event_loop.hpp"

#include <algorithm>
#include <sys/resource.h>

namespace softrdma
{

namespace
{

constexpr auto first_message_time = std::chrono::seconds(2); // a peer sends it as soon as it is connected
constexpr auto min_time = std::chrono::milliseconds(100);    // minimum time for each peer

// An eighth of the descriptor limit of the program, if that is small.
std::size_t max_callers() noexcept
{
    constexpr rlim_t most = 128;
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return static_cast<std::size_t>(known ? std::clamp<rlim_t>(limit.rlim_cur / 8, 1, most) : most);
}

} // namespace

std::chrono::milliseconds unknown_callers::add(const std::shared_ptr<caller> &who)
{
    const std::size_t most = max_callers();
    while (const auto oldest = take_oldest(most)) {
        log::write(log::level::info, "peer disconnected before its first message: %zu others are pending", most);
        oldest->send_away();
    }
    try {
        event_loop::get()->after(first_message_time, [this, weak = std::weak_ptr(who)] {
            const auto silent = weak.lock();
            if (silent == nullptr || !remove(silent))
                return;
            log::write(log::level::info, "peer disconnected: no message within %d s (not a peer of this device?)",
                    static_cast<int>(first_message_time.count()));
            silent->send_away();
        });
        {
            const lock_guard lock(mutex_);
            callers_.push_back({who, clock::now()});
        }
        return pause();
    } catch (const std::bad_alloc &) {
        who->send_away();
        return min_time;
    }
}

std::chrono::milliseconds unknown_callers::pause()
{
    const std::size_t most = max_callers();
    const lock_guard lock(mutex_);
    if (callers_.size() < most)
        return std::chrono::milliseconds(0);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(callers_.front().since + min_time - clock::now());
    return std::max(wait, std::chrono::milliseconds(0));
}

std::shared_ptr<caller> unknown_callers::take_oldest(std::size_t most)
{
    const lock_guard lock(mutex_);
    std::erase_if(callers_, [](const entry &e) { return e.who.expired(); });
    std::shared_ptr<caller> oldest;
    for (; oldest == nullptr && callers_.size() >= most; callers_.pop_front())
        oldest = callers_.front().who.lock();
    return oldest;
}

bool unknown_callers::remove(const std::shared_ptr<caller> &who)
{
    const lock_guard lock(mutex_);
    return std::erase_if(
                   callers_, [&](const entry &e) { return !e.who.owner_before(who) && !who.owner_before(e.who); }) != 0;
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace softrdma
{

// Timer of a path, started for its receiver (packet_path::start_timer). A start replaces an earlier one.
class path_timer
{
public:
    template<typename Path>
    void start(std::weak_ptr<Path> owner, std::chrono::microseconds delay)
    {
        event_loop::get()->after(delay, [this, owner = std::move(owner), number = latest_.fetch_add(1) + 1] {
            const auto path = owner.lock();
            if (path == nullptr || latest_.load() != number)
                return;
            const auto receiver = path->bound();
            try {
                if (receiver != nullptr)
                    receiver->timer_expired();
            } catch (const std::bad_alloc &) {
                path->cut(); // otherwise the requests of the receiver wait forever
            }
        });
    }

private:
    std::atomic<std::uint64_t> latest_{0};
};

// Timer for a deadline that moves: the caller restarts it if it expires early. Guarded by a lock of its owner.
class deadline_timer
{
public:
    using clock = std::chrono::steady_clock;

    template<typename Call>
    void start(std::optional<clock::time_point> deadline, Call expired)
    {
        if (!deadline || (pending_ && *pending_ <= *deadline))
            return;
        const auto delay = std::chrono::ceil<std::chrono::microseconds>(*deadline - clock::now());
        event_loop::get()->after(std::max(delay, std::chrono::microseconds(0)), std::move(expired));
        pending_ = deadline;
    }
    void expired() noexcept { pending_.reset(); } // first call of the function of the pending timer

private:
    std::optional<clock::time_point> pending_; // expiry
};

} // namespace softrdma

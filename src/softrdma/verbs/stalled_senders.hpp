// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/spin_lock.hpp"

#include <atomic>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace softrdma
{

// A sender whose next message waits for the receiver.
class stalled_sender
{
public:
    virtual ~stalled_sender() = default;
    virtual void retry() = 0;
};

// Senders that a poll which finds no completion retries.
class stalled_senders
{
public:
    // Returns false if no memory is left for the list: the sender needs its own timer.
    bool add(std::weak_ptr<stalled_sender> sender) noexcept
    {
        const lock_guard lock(lock_);
        try {
            senders_.push_back(std::move(sender));
        } catch (const std::bad_alloc &) {
            return false;
        }
        any_.store(true, std::memory_order_relaxed);
        return true;
    }
    // Returns whether there were any.
    bool retry()
    {
        if (!any_.load(std::memory_order_relaxed))
            return false;
        std::vector<std::weak_ptr<stalled_sender>> senders;
        {
            const lock_guard lock(lock_);
            senders.swap(senders_);
            any_.store(false, std::memory_order_relaxed);
        }
        for (const auto &weak : senders) {
            if (const auto sender = weak.lock())
                sender->retry();
        }
        return !senders.empty();
    }

private:
    std::atomic<bool> any_{false};
    spin_lock lock_{lock_level::completion_queue};
    std::vector<std::weak_ptr<stalled_sender>> senders_ GUARDED_BY(lock_);
};

} // namespace softrdma

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

class queue_pair;

// Queue pairs whose next message waits for the receiver. A poll that finds no completion retries them.
class stalled_senders
{
public:
    // Returns false if no memory is left for the list: the sender needs its own timer.
    bool add(std::weak_ptr<queue_pair> sender) noexcept
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
    bool retry() { return any_.load(std::memory_order_relaxed) && retry_all(); }

private:
    bool retry_all();

    std::atomic<bool> any_{false};
    spin_lock lock_{lock_level::completion_queue};
    std::vector<std::weak_ptr<queue_pair>> senders_ GUARDED_BY(lock_);
};

} // namespace softrdma

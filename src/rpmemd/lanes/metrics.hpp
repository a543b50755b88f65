// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "prometheus.hpp"
#include "record/mirror_state.hpp"

namespace rpmemd
{

// Counters of the daemon. Threads that serve clients change them without locks.
struct daemon_metrics {
    std::atomic<std::uint64_t> clients = 0, unauthenticated = 0, rejected = 0;
};

// Counters and last state of a mirrored set. Threads that serve lanes change the counters without locks.
class set_metrics
{
public:
    struct snapshot {
        replica::mirror_state state;
        bool attached = false; // a writer has lanes
    };

    std::atomic<std::uint64_t> flushed_bytes = 0, flush_errors = 0, fenced_writers = 0, lost_writers = 0, readers = 0;
    prometheus::histogram flush_time;

    // Holds the lock only to copy the state, so that a set that waits for its disk does not delay readers.
    void publish(const replica::mirror_state &state, bool attached)
    {
        const std::lock_guard guard(lock_);
        latest_ = {state, attached};
    }
    // Returns nothing if the set has not been opened.
    std::optional<snapshot> latest() const
    {
        const std::lock_guard guard(lock_);
        return latest_;
    }

private:
    mutable std::mutex lock_;
    std::optional<snapshot> latest_;
};

} // namespace rpmemd

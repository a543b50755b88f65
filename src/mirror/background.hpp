// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <thread>

#include "resync.hpp"

namespace mirror
{

// Resynchronizes targets in the background that are not in sync and respond again. Each target has a thread of its own
// during an attempt, so that a silent target does not delay the others.
class background_resync
{
public:
    background_resync(set_parts &of, resyncer &with);
    ~background_resync() { stop(); }
    background_resync(const background_resync &) = delete;
    background_resync &operator=(const background_resync &) = delete;

    // Starts an attempt for each target that is due. One thread calls it periodically.
    void poll();
    // Cancels the attempts and waits for them. poll() must not be called afterwards.
    void stop();

private:
    static constexpr int min_pause_ms = 500; // shortest pause between two attempts

    // While the thread is running, only it accesses `next_ms` and `pause_ms`.
    struct attempts {
        std::unique_ptr<replica::loss> cancel; // event that cancels the latest attempt
        std::atomic<bool> running = false;
        std::int64_t next_ms = 0; // time of the next attempt
        int pause_ms = min_pause_ms;
        std::jthread thread;
    };

    bool is_due(unsigned copy, attempts &of) const;
    void start(unsigned copy, attempts &of);

    const settings &settings_;
    membership &membership_;
    const remote_copies &copies_;
    resyncer &resyncer_;
    std::array<attempts, replica::max_copies> attempts_;
};

} // namespace mirror

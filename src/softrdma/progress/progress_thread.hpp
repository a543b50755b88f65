// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "progress/watch_list.hpp"

#include <atomic>
#include <cstdint>

namespace softrdma
{

class event_loop;
class polling;

// Thread that serves the network when no thread of the program polls. It blocks all signals except SIGBUS.
class progress_thread
{
public:
    progress_thread(event_loop &loop, polling &polls) noexcept : loop_(loop), polls_(polls) {}

    int start(void (*first)()); // the thread first calls `first`; returns 0 or an errno value
    void unpark();              // call when the program stops polling

private:
    void run();
    bool spins_after_sleep(std::int64_t slept_ns) noexcept;
    poll_result spin();
    void back_off(poll_result last);

    event_loop &loop_;
    polling &polls_;
    void (*first_)() = nullptr;
    // True if its last spin ended without a packet; spins that it still skips; total of the current series.
    bool last_spin_was_empty_ = false;
    unsigned skips_left_ = 0;
    unsigned next_skips_ = 0;
    ordered_mutex mutex_{lock_level::leaf};
    condition unparked_;
    std::atomic<bool> parked_{false};
};

} // namespace softrdma

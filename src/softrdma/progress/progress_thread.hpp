// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "progress/event_handler.hpp"

#include <atomic>
#include <cstdint>

namespace softrdma::net
{

class event_loop;
class polling;

// The thread that serves what no thread of the program looks for. All signals but SIGBUS are blocked in it.
class progress_thread
{
public:
    progress_thread(event_loop &loop, polling &polls) noexcept : loop_(loop), polls_(polls) {}

    // It begins with `first`. 0 or an errno value.
    int start(void (*first)());
    // The program polls no more: the thread has to be back at once.
    void come_back();

private:
    void run();
    bool spins_after_sleep(std::int64_t slept_ns) noexcept;
    finding spin();
    void back_off(finding last);

    event_loop &loop_;
    polling &polls_;
    void (*first_)() = nullptr;
    // Its last spin ended without a packet; so many times it is not to spin any more, of so many in a row.
    bool spin_found_nothing_ = false;
    unsigned left_out_ = 0;
    unsigned to_leave_out_ = 0;
    ordered_mutex mutex_{lock_level::leaf};
    condition woken_;
    std::atomic<bool> resting_{false};
};

} // namespace softrdma::net

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include "clock.hpp"
#include "fd_owner.hpp"
#include "targets.hpp"

namespace rpmem
{

// Runs a function for several targets concurrently, with one thread per target, so that an unresponsive target does not
// delay the others.
class step
{
public:
    using targets = std::uint32_t; // bit mask
    using deadline = replica::deadline;

    // Time, in milliseconds, that optional targets get after the last required target has responded.
    static constexpr int grace_ms = 3000;

    // The timeout applies to each target; 0 means no limit.
    explicit step(int timeout_ms) : until_(timeout_ms) {}
    step(const step &) = delete;
    step &operator=(const step &) = delete;
    ~step() { pthread_mutex_destroy(&lock_); }

    // Returns the targets for which f succeeded: bool f(unsigned index, const deadline &until). A single target runs in
    // the thread of the caller. is_complete(targets) receives those that have succeeded so far and returns whether the
    // other targets are optional.
    template<class F, class C>
    targets run(targets of, const F &f, const C &is_complete)
    {
        function_ = [](const void *call, unsigned index, const deadline &until) {
            return (*static_cast<const F *>(call))(index, until);
        };
        is_complete_ = [](const void *call, targets succeeded) { return (*static_cast<const C *>(call))(succeeded); };
        function_call_ = &f;
        is_complete_call_ = &is_complete;
        run(of);
        return succeeded_;
    }

private:
    struct job {
        step *owner;
        unsigned index;
        pthread_t thread;
    };

    static void *run_job(void *argument);
    void run(targets of);
    void run_one(unsigned index);

    const deadline until_;
    bool (*function_)(const void *call, unsigned index, const deadline &until) = nullptr;
    bool (*is_complete_)(const void *call, targets succeeded) = nullptr;
    const void *function_call_ = nullptr, *is_complete_call_ = nullptr;
    replica::fd_owner end_of_grace_; // a timer
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    targets succeeded_ = 0;
    bool complete_ = false;
};

} // namespace rpmem

// SPDX-License-Identifier: BSD-3-Clause
#include "step.hpp"

#include <sys/timerfd.h>

#include "locked.hpp"
#include "quiet_thread.hpp"

namespace rpmem
{

void step::run_one(unsigned index)
{
    const bool succeeded = function_(function_call_, index, deadline(until_, end_of_grace_.get()));
    const locked hold(lock_);
    succeeded_ |= succeeded ? 1U << index : 0;
    if (complete_ || !is_complete_(is_complete_call_, succeeded_))
        return;
    complete_ = true;
    const itimerspec grace{{}, {grace_ms / 1000, grace_ms % 1000 * 1000000L}};
    timerfd_settime(end_of_grace_.get(), 0, &grace, nullptr);
}

void *step::run_job(void *argument)
{
    const job &j = *static_cast<job *>(argument);
    j.owner->run_one(j.index);
    return nullptr;
}

void step::run(targets of)
{
    if ((of & (of - 1)) == 0) {
        if (of != 0)
            run_one(static_cast<unsigned>(__builtin_ctz(of)));
        return;
    }
    // If the timer cannot be created, the step waits for all targets.
    end_of_grace_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    // The threads use the stack of the caller, so it must not be canceled.
    int cancelling = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    job jobs[target_list::max_targets];
    targets started = 0;
    for (targets left = of; left != 0; left &= left - 1) {
        const auto index = static_cast<unsigned>(__builtin_ctz(left));
        jobs[index].owner = this;
        jobs[index].index = index;
        if (start_quiet_thread(&jobs[index].thread, run_job, &jobs[index]) == 0)
            started |= 1U << index;
    }
    for (targets left = of & ~started; left != 0; left &= left - 1)
        run_one(static_cast<unsigned>(__builtin_ctz(left)));
    for (targets left = started; left != 0; left &= left - 1)
        pthread_join(jobs[__builtin_ctz(left)].thread, nullptr);
    pthread_setcancelstate(cancelling, nullptr);
}

} // namespace rpmem

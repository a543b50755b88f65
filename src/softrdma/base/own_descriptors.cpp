// SPDX-License-Identifier: BSD-3-Clause
#include "base/own_descriptors.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <linux/close_range.h>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma::detail
{

namespace
{

struct work {
    void (*call)(void *);
    void *argument;
    bool done = false;
};

// In containers the second call may be refused where the first one is allowed; a kernel before 5.9 has only the second.
bool leave_shared_table() noexcept
{
    return syscall(SYS_close_range, UINT_MAX, UINT_MAX, CLOSE_RANGE_UNSHARE) == 0 || unshare(CLONE_FILES) == 0;
}

void *run(void *argument)
{
    auto &w = *static_cast<work *>(argument);
    if (!leave_shared_table())
        return nullptr;
    try {
        w.call(w.argument);
        w.done = true;
    } catch (const std::bad_alloc &) {
        w.done = false;
    }
    // The end of the thread would close them as well, but later than the caller goes on.
    syscall(SYS_close_range, 0, UINT_MAX, 0);
    return nullptr;
}

} // namespace

bool with_own_descriptors(void (*call)(void *), void *argument) noexcept
{
    work w{call, argument};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const int error = pthread_create(&thread, nullptr, run, &w);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0)
        pthread_join(thread, nullptr);
    return w.done;
}

} // namespace softrdma::detail

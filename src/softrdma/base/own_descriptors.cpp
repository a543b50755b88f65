// SPDX-License-Identifier: BSD-3-Clause
#include "base/own_descriptors.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"

#include <climits>
#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma::detail
{

namespace
{

// A POSIX lock on an unnamed file. The kernel attributes the lock to the descriptor table of the thread that took it. A
// thread therefore finds it held by another owner only if its table is a different one.
class table_lock
{
public:
    table_lock() noexcept : file_(memfd_create("softrdma-table", MFD_CLOEXEC))
    {
        flock whole = write_lock();
        held_ = fcntl(file_.get(), F_SETLK, &whole) == 0;
    }
    bool is_of_other_table() const noexcept
    {
        flock found = write_lock();
        return held_ && fcntl(file_.get(), F_GETLK, &found) == 0 && found.l_type == F_WRLCK;
    }

private:
    static flock write_lock() noexcept
    {
        flock lock{};
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        return lock;
    }

    const unique_fd file_;
    bool held_ = false;
};

struct work {
    void (*call)(void *);
    void *argument;
    table_lock creator; // lock of the table that the thread must not share
    bool done = false;
};

// Containers may forbid unshare() and allow close_range(); kernels before 5.9 have only unshare(). Valgrind 3.19 and
// some sandboxes return success for a call that they did not execute, so neither result counts.
bool leave_shared_table(const table_lock &creator) noexcept
{
    syscall(SYS_close_range, UINT_MAX, UINT_MAX, CLOSE_RANGE_UNSHARE);
    if (creator.is_of_other_table())
        return true;
    unshare(CLONE_FILES);
    if (creator.is_of_other_table())
        return true;
    log::write(log::level::info,
            "descriptors: no private table for a thread: close_range and unshare are ineffective (files of peers use "
            "TCP)");
    return false;
}

void *run(void *argument)
{
    auto &w = *static_cast<work *>(argument);
    if (!leave_shared_table(w.creator))
        return nullptr;
    try {
        w.call(w.argument);
        w.done = true;
    } catch (const std::bad_alloc &) {
        w.done = false;
    }
    // The exit of the thread would close them too, but after the caller has resumed.
    syscall(SYS_close_range, 0, UINT_MAX, 0);
    return nullptr;
}

} // namespace

bool with_own_descriptors(void (*call)(void *), void *argument) noexcept
{
    work w{call, argument, {}};
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

// SPDX-License-Identifier: BSD-3-Clause
#include "progress/timers.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/timerfd.h>
#include <unistd.h>

namespace softrdma
{

namespace
{

// Runs a call. Calls that must not fail use reserved memory; the others may be dropped.
void run(const reserve::call &call) noexcept
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "timer: out of memory: deferred call dropped");
    }
}

} // namespace

int timers::open()
{
    descriptor_ = unique_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return descriptor_.get() < 0 ? errno : 0;
}

void timers::add(std::chrono::microseconds delay, reserve::call call)
{
    const lock_guard lock(mutex_);
    waiting_.emplace(clock::now() + delay, std::move(call));
    set_descriptor();
}

void timers::set_descriptor()
{
    itimerspec spec{};
    if (!waiting_.empty()) {
        const auto wait =
                std::max<clock::duration>(waiting_.begin()->first - clock::now(), std::chrono::nanoseconds(1));
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
        spec.it_value = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    }
    timerfd_settime(descriptor_.get(), 0, &spec, nullptr);
}

timers::queue timers::take_due()
{
    queue due;
    const lock_guard lock(mutex_);
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = read(descriptor_.get(), &expirations, sizeof(expirations));
    const auto now = clock::now();
    while (!waiting_.empty() && waiting_.begin()->first <= now)
        due.insert(due.end(), waiting_.extract(waiting_.begin()));
    set_descriptor();
    return due;
}

void timers::run_due()
{
    for (const auto &[at, call] : take_due())
        run(call);
}

// Other members are left unchanged, because the thread that uses them does not exist in the child.
void timers::after_fork_in_child() noexcept
{
    close(descriptor_.release());
}

} // namespace softrdma

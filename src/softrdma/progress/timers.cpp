// SPDX-License-Identifier: BSD-3-Clause
#include "progress/timers.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/timerfd.h>
#include <unistd.h>

namespace softrdma
{

int timers::open()
{
    descriptor_ = unique_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return descriptor_.get() < 0 ? errno : 0;
}

void timers::add(std::chrono::microseconds delay, reserve::prepared_call call) noexcept
{
    if (call.entry.empty())
        return;
    const lock_guard lock(mutex_);
    call.entry.key() = clock::now() + delay;
    waiting_.insert(std::move(call.entry));
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

reserve::call_queue timers::take_due()
{
    reserve::call_queue due;
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
    for (reserve::call_queue due = take_due(); !due.empty();) {
        reserve::prepared_call first;
        first.entry = due.extract(due.begin());
        run(std::move(first));
    }
}

void timers::run(reserve::prepared_call current) noexcept
{
    constexpr std::chrono::milliseconds pause{10};
    try {
        current.entry.mapped()(current);
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "timer: deferred call repeated: out of memory");
        add(pause, std::move(current)); // unless its owner has it
    }
}

// Other members are left unchanged, because the thread that uses them does not exist in the child.
void timers::after_fork_in_child() noexcept
{
    close(descriptor_.release());
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#include "lane_watch.hpp"

#include <algorithm>
#include <sys/epoll.h>
#include <sys/timerfd.h>

namespace mirror
{

lane_watch::lane_watch(const wakeup &set_changed)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))
{
    if (!epoll_.valid() || !timer_.valid())
        throw system_failure("cannot create a descriptor for a lane");
    for (const int fd : {timer_.get(), ready_.fd(), set_changed.fd()})
        if (const int error = add(fd); error != 0)
            throw system_failure("cannot watch a descriptor for a lane", error);
    clear();
}

int lane_watch::add(int fd) noexcept
{
    epoll_event interest{};
    interest.events = EPOLLIN | EPOLLET;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0 ? 0 : errno;
}

int lane_watch::add(unsigned copy, const replica::region_lane &lane, const replica::loss &lost) noexcept
{
    if ((added_ >> copy & 1) != 0)
        return 0;
    const auto [completions, connection] = lane.fds();
    for (const int fd : {completions, connection, lost.fd()})
        if (const int error = add(fd); error != 0 && error != EEXIST)
            return error;
    added_ |= 1U << copy;
    return 0;
}

// Receives all edges: a copy has three descriptors.
void lane_watch::clear() noexcept
{
    epoll_event events[3 * replica::max_copies + 3];
    while (epoll_wait(epoll_.get(), events, std::size(events), 0) == static_cast<int>(std::size(events))) {
    }
    if (timer_ms_ <= replica::now_ms())
        timer_ms_ = 0;
}

void lane_watch::raise_at(std::int64_t time_ms) noexcept
{
    if (timer_ms_ != 0 && timer_ms_ <= time_ms)
        return;
    timer_ms_ = time_ms;
    itimerspec at{};
    at.it_value.tv_sec = time_ms / 1000;
    at.it_value.tv_nsec = time_ms % 1000 * 1'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

} // namespace mirror

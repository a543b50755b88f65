// SPDX-License-Identifier: BSD-3-Clause
#include "progress/watch_list.hpp"
#include "base/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace softrdma
{

int watch_list::open(int timer)
{
    epoll_ = unique_fd(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = timer_watch}};
    return epoll_.get() < 0 || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer, &event) != 0 ? errno : 0;
}

watch_list::watch_id watch_list::add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler)
{
    const lock_guard lock(mutex_);
    const watch_id id = next_id_++;
    SOFTRDMA_ASSERT(id != 0 && id != timer_watch);
    epoll_event event{.events = events, .data = {.u64 = id}};
    watched_.emplace(id, watched{fd, std::move(handler)});
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0)
        return id;
    watched_.erase(id);
    return 0;
}

void watch_list::change(watch_id id, std::uint32_t events)
{
    const lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    epoll_event event{.events = events, .data = {.u64 = id}};
    if (found != watched_.end())
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void watch_list::remove(watch_id id)
{
    std::shared_ptr<event_handler> last; // destroyed after the lock is released
    const lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    if (found == watched_.end())
        return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
    last = std::move(found->second.handler);
    if (expects(*last))
        expect(nullptr);
    watched_.erase(found);
}

void watch_list::add_in_memory(const std::shared_ptr<event_handler> &handler)
{
    const lock_guard lock(mutex_);
    SOFTRDMA_ASSERT(std::ranges::find(in_memory_, handler) == in_memory_.end());
    in_memory_.push_back(handler);
}

void watch_list::remove_in_memory(const event_handler &handler)
{
    std::shared_ptr<event_handler> last; // destroyed after the lock is released
    const lock_guard lock(mutex_);
    const auto found = std::ranges::find(in_memory_, &handler, &std::shared_ptr<event_handler>::get);
    if (found == in_memory_.end())
        return;
    last = std::move(*found);
    in_memory_.erase(found);
}

std::span<const epoll_event> watch_list::wait(std::span<epoll_event> space, int timeout) const noexcept
{
    const int count = epoll_wait(epoll_.get(), space.data(), static_cast<int>(space.size()), timeout);
    return space.first(static_cast<std::size_t>(std::max(count, 0)));
}

void watch_list::sleep(std::chrono::microseconds limit) const noexcept
{
    pollfd any{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
    const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(limit).count()};
    ppoll(&any, 1, &time, nullptr);
}

std::shared_ptr<event_handler> watch_list::find(const epoll_event &event, bool &newly_expected)
{
    std::shared_ptr<event_handler> former; // destroyed after the lock is released
    const lock_guard lock(mutex_);
    newly_expected = false;
    const auto found = watched_.find(event.data.u64);
    if (found == watched_.end())
        return nullptr;
    const auto &handler = found->second.handler;
    newly_expected = (event.events & EPOLLIN) != 0 && !expects(*handler);
    if (newly_expected)
        former = expect(handler);
    return handler;
}

std::shared_ptr<event_handler> watch_list::in_memory(std::size_t index)
{
    const lock_guard lock(mutex_);
    return index < in_memory_.size() ? in_memory_[index] : nullptr;
}

std::shared_ptr<event_handler> watch_list::expect(std::shared_ptr<event_handler> handler) noexcept
{
    const lock_guard lock(expected_lock_);
    expected_address_ = handler.get();
    return std::exchange(expected_, std::move(handler));
}

// Closes the sockets, which belong to connections of the parent: its peers must detect when the parent exits. Other
// members are left unchanged, because the thread that uses them does not exist in the child.
void watch_list::after_fork_in_child() noexcept
{
    mutex_.unlock();
    for (const auto &[id, w] : watched_)
        close(w.fd);
    close(epoll_.release());
}

} // namespace softrdma

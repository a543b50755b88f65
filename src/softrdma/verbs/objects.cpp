// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/objects.hpp"
#include "base/log.hpp"
#include "base/put_event.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace softrdma
{

std::uint64_t protection_domain::next_number() noexcept
{
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

event_fd::event_fd() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

void event_fd::put() const noexcept
{
    put_event(fd_.get());
}

int event_fd::take(progress *engine) const noexcept
{
    std::uint64_t token = 0;
    const auto takes = [&] { return read(fd_.get(), &token, sizeof(token)) == sizeof(token); };
    if (engine != nullptr && (fcntl(fd_.get(), F_GETFL) & O_NONBLOCK) == 0)
        engine->about_to_wait();
    if (takes())
        return 0;
    if (engine == nullptr || errno != EAGAIN)
        return -1;
    // A program that calls this in a loop may keep the CPU from the progress thread.
    engine->poll();
    engine->about_to_wait();
    return takes() ? 0 : -1;
}

// Another thread may take the last token between any check and the read. Only a read that does not block is safe,
// whatever flags the program has set for the descriptor.
void event_fd::withdraw(std::size_t tokens) const noexcept
{
    std::uint64_t token = 0;
    const iovec to{&token, sizeof(token)};
    while (tokens > 0 && preadv2(fd_.get(), &to, 1, -1, RWF_NOWAIT) == sizeof(token))
        --tokens;
}

void async_queue::push(const ibv_async_event &event) noexcept
{
    try {
        const lock_guard lock(mutex_);
        delivered_.try_emplace(event.element.qp); // allocated now, because take() must not fail
        queue_.push_back(event);
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "asynchronous event %d: lost: out of memory", static_cast<int>(event.event_type));
        return;
    }
    ready_.put();
}

int async_queue::take(ibv_async_event *event, progress &engine)
{
    for (;;) {
        if (ready_.take(&engine) != 0)
            return -1;
        const lock_guard lock(mutex_);
        if (queue_.empty())
            continue;
        *event = queue_.front();
        if (event->event_type != IBV_EVENT_DEVICE_FATAL)
            ++delivered_[event->element.qp];
        queue_.pop_front();
        return 0;
    }
}

unsigned async_queue::forget(const void *element)
{
    const lock_guard lock(mutex_);
    ready_.withdraw(std::erase_if(queue_, [element](const ibv_async_event &e) { return e.element.qp == element; }));
    const auto found = delivered_.find(element);
    if (found == delivered_.end())
        return 0;
    const unsigned count = found->second;
    delivered_.erase(found);
    return count;
}

} // namespace softrdma

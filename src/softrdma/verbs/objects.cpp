// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/objects.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace softrdma
{

std::uint64_t protection_domain::next_number() noexcept
{
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

event_fd::event_fd() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

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

// Another thread may take the last token. RWF_NOWAIT never blocks, whatever flags the program has set.
void event_fd::withdraw(std::size_t tokens) const noexcept
{
    std::uint64_t token = 0;
    const iovec to{&token, sizeof(token)};
    while (tokens > 0 && preadv2(fd_.get(), &to, 1, -1, RWF_NOWAIT) == sizeof(token))
        --tokens;
}

void async_queue::push(object_events &object, ibv_event_type type) noexcept
{
    {
        const lock_guard lock(mutex_);
        try {
            while (unqueued_ != nullptr) {
                queue_.emplace_back();
                queue_.back() = take_unqueued();
            }
            queue_.push_back({&object, type});
        } catch (const std::bad_alloc &) {
            if (object.unqueued == 0)
                object.next_unqueued = std::exchange(unqueued_, &object);
            const unsigned before = std::exchange(object.unqueued, object.unqueued | 1u << type);
            if (object.unqueued == before)
                return;
        }
    }
    ready_.put();
}

async_queue::entry async_queue::take_unqueued() noexcept
{
    object_events &object = *unqueued_;
    const auto type = static_cast<ibv_event_type>(std::countr_zero(object.unqueued));
    object.unqueued &= object.unqueued - 1;
    if (object.unqueued == 0)
        unqueued_ = object.next_unqueued;
    return {&object, type};
}

std::optional<async_queue::entry> async_queue::next() noexcept
{
    if (!queue_.empty()) {
        const entry first = queue_.front();
        queue_.pop_front();
        return first;
    }
    return unqueued_ == nullptr ? std::nullopt : std::optional(take_unqueued());
}

int async_queue::take(ibv_async_event *event, progress &engine)
{
    for (;;) {
        if (ready_.take(&engine) != 0)
            return -1;
        const lock_guard lock(mutex_);
        const auto first = next();
        if (!first)
            continue;
        event->element.qp = static_cast<ibv_qp *>(first->object->element);
        event->event_type = first->type;
        ++first->object->delivered;
        return 0;
    }
}

unsigned async_queue::forget(object_events &object)
{
    const lock_guard lock(mutex_);
    const auto queued = std::erase_if(queue_, [&](const entry &e) { return e.object == &object; });
    ready_.withdraw(queued + static_cast<std::size_t>(std::popcount(object.unqueued)));
    if (std::exchange(object.unqueued, 0) != 0) {
        object_events **at = &unqueued_;
        while (*at != &object)
            at = &(*at)->next_unqueued;
        *at = object.next_unqueued;
    }
    return object.delivered;
}

} // namespace softrdma

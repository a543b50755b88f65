// SPDX-License-Identifier: BSD-3-Clause
#include "core/cq.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma
{

namespace
{

std::atomic<void (*)()> idle_hook{nullptr};

} // namespace

void set_idle_hook(void (*hook)()) noexcept
{
    idle_hook.store(hook, std::memory_order_release);
}

completion_channel::completion_channel(ibv_context *owner) : ibv_comp_channel{}
{
    context = owner;
    fd = ready_.fd();
}

void completion_channel::notify(completion_queue *cq)
{
    {
        const std::lock_guard lock(mutex_);
        queue_.push_back(cq);
    }
    ready_.put();
}

int completion_channel::take(completion_queue **cq)
{
    for (;;) {
        if (ready_.take() != 0)
            return -1;
        const std::lock_guard lock(mutex_);
        if (queue_.empty())
            continue;
        *cq = queue_.front();
        queue_.pop_front();
        ++(*cq)->handed_out_;
        return 0;
    }
}

unsigned completion_channel::forget(completion_queue *cq)
{
    const std::lock_guard lock(mutex_);
    std::erase(queue_, cq);
    return cq->handed_out_;
}

completion_queue::completion_queue(ibv_context *owner, int entries, completion_channel *events, void *cookie) : ibv_cq{}
{
    context = owner;
    channel = events;
    cq_context = cookie;
    cqe = entries;
    pthread_mutex_init(&mutex, nullptr);
    pthread_cond_init(&cond, nullptr);
    if (events != nullptr)
        events->users.fetch_add(1);
}

completion_queue::~completion_queue()
{
    if (channel != nullptr)
        static_cast<completion_channel *>(channel)->users.fetch_sub(1);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

void completion_queue::push(const ibv_wc &wc, bool solicited)
{
    bool fire = false;
    {
        const std::lock_guard lock(mutex_);
        if (overflowed_)
            return;
        if (entries_.size() >= static_cast<std::size_t>(cqe))
            return overflow();
        entries_.push_back(wc);
        fire = armed_ == notify_on::everything ||
               (armed_ == notify_on::solicited && (solicited || wc.status != IBV_WC_SUCCESS));
        if (fire)
            armed_ = notify_on::nothing;
    }
    if (fire && channel != nullptr)
        static_cast<completion_channel *>(channel)->notify(this);
}

void completion_queue::overflow()
{
    overflowed_ = true;
    ibv_async_event event{};
    event.element.cq = this;
    event.event_type = IBV_EVENT_CQ_ERR;
    context_of(context).async.push(event);
    defer([this] { fail_queue_pairs_of(this); }); // whose locks are held here or come first
}

bool completion_queue::overflowed()
{
    const std::lock_guard lock(mutex_);
    return overflowed_;
}

int completion_queue::resize(int entries)
{
    const std::lock_guard lock(mutex_);
    if (static_cast<std::size_t>(entries) < entries_.size())
        return EINVAL;
    cqe = entries;
    return 0;
}

int completion_queue::poll(int entries, ibv_wc *wc)
{
    for (bool last_try = false;; last_try = true) {
        {
            const std::lock_guard lock(mutex_);
            const auto count = std::min(static_cast<std::size_t>(std::max(entries, 0)), entries_.size());
            std::copy_n(entries_.begin(), count, wc);
            entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count));
            if (count > 0 || last_try || entries <= 0)
                return static_cast<int>(count);
        }
        auto *hook = idle_hook.load(std::memory_order_acquire);
        if (hook == nullptr)
            return 0;
        hook();
    }
}

void completion_queue::arm(bool solicited_only)
{
    const std::lock_guard lock(mutex_);
    if (!solicited_only)
        armed_ = notify_on::everything;
    else if (armed_ == notify_on::nothing)
        armed_ = notify_on::solicited;
}

void completion_queue::acknowledge(unsigned events)
{
    pthread_mutex_lock(&mutex);
    comp_events_completed += events;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
}

void completion_queue::drain_events()
{
    const unsigned handed_out = channel == nullptr ? 0 : static_cast<completion_channel *>(channel)->forget(this);
    const unsigned reported = context_of(context).async.forget(static_cast<ibv_cq *>(this));
    pthread_mutex_lock(&mutex);
    while (comp_events_completed != handed_out || async_events_completed != reported)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
}

} // namespace softrdma

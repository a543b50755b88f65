// SPDX-License-Identifier: BSD-3-Clause
#include "base/process.hpp"

#include <array>
#include <cstddef>

namespace softrdma::process
{

constinit creation_lock making;

namespace
{

std::atomic<unsigned> forks{0};
thread_local unsigned held = 0; // recursion depth of the creation lock in this thread
slot *slots GUARDED_BY(making) = nullptr;
std::array<fork_hooks, 4> all_hooks GUARDED_BY(making){};
std::size_t hook_count GUARDED_BY(making) = 0;

void before_fork() noexcept ACQUIRE(making)
{
    making.lock();
    for (std::size_t i = 0; i < hook_count; ++i)
        all_hooks[i].before();
}

void after_fork_in_parent() noexcept RELEASE(making)
{
    for (std::size_t i = hook_count; i > 0; --i)
        all_hooks[i - 1].in_parent();
    making.unlock();
}

void after_fork_in_child() noexcept RELEASE(making)
{
    forks.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = hook_count; i > 0; --i)
        all_hooks[i - 1].in_child();
    hook_count = 0; // objects that the child creates add their hooks again
    forget_objects_of_parent();
    making.unlock();
}

// Runs when the library is loaded, because a thread may fork while another one creates the first object.
[[gnu::constructor]] void watch_forks()
{
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

} // namespace

unsigned generation() noexcept
{
    return forks.load(std::memory_order_relaxed);
}

void creation_lock::lock() noexcept NO_THREAD_SAFETY_ANALYSIS
{
    if (held++ > 0)
        return;
    order_.enter();
    pthread_mutex_lock(&mutex_);
}

void creation_lock::unlock() noexcept NO_THREAD_SAFETY_ANALYSIS
{
    if (--held > 0)
        return;
    pthread_mutex_unlock(&mutex_);
    order_.leave();
}

void add_fork_hooks(const fork_hooks &hooks) noexcept
{
    all_hooks[hook_count++] = hooks;
}

void forget_objects_of_parent() noexcept
{
    for (slot *s = slots; s != nullptr; s = s->next_)
        s->object_.store(nullptr, std::memory_order_relaxed);
}

void slot::publish(void *object) noexcept
{
    if (!std::exchange(is_listed_, true))
        next_ = std::exchange(slots, this);
    object_.store(object, std::memory_order_release);
}

} // namespace softrdma::process

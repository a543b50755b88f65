// SPDX-License-Identifier: BSD-3-Clause
#include "base/process.hpp"

#include <array>
#include <cstddef>
#include <pthread.h>

namespace softrdma::process
{

namespace
{

std::atomic<unsigned> forks{0};
// Not a recursive mutex: the thread that forks has another number in the child, which may not give such a one back.
pthread_mutex_t creation_lock = PTHREAD_MUTEX_INITIALIZER;
thread_local unsigned held = 0; // how often this thread has the creation lock
// These three are guarded by the creation lock.
slot *slots = nullptr;
std::array<fork_hooks, 4> all_hooks{};
std::size_t hook_count = 0;

void enter() noexcept
{
    if (held++ == 0)
        pthread_mutex_lock(&creation_lock);
}

void leave() noexcept
{
    if (--held == 0)
        pthread_mutex_unlock(&creation_lock);
}

void before_fork() noexcept
{
    enter();
    for (std::size_t i = 0; i < hook_count; ++i)
        all_hooks[i].before();
}

void after_fork_in_parent() noexcept
{
    for (std::size_t i = hook_count; i > 0; --i)
        all_hooks[i - 1].in_parent();
    leave();
}

void after_fork_in_child() noexcept
{
    forks.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = hook_count; i > 0; --i)
        all_hooks[i - 1].in_child();
    hook_count = 0; // what the child makes itself adds them anew
    forget_objects_of_parent();
    leave();
}

// When the library is loaded: a thread may fork while another one makes the first object.
[[gnu::constructor]] void watch_forks()
{
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

} // namespace

unsigned generation() noexcept
{
    return forks.load(std::memory_order_relaxed);
}

creation::creation() noexcept
{
    enter();
}

creation::~creation()
{
    leave();
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

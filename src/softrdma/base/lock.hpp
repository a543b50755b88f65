// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock_order.hpp"
#include "base/thread_safety.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

namespace softrdma
{

class condition;

class CAPABILITY("mutex") ordered_mutex
{
public:
    explicit constexpr ordered_mutex(lock_level level) noexcept : order_(level) {}

    void lock() ACQUIRE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.enter();
        mutex_.lock();
    }
    bool try_lock() TRY_ACQUIRE(true) NO_THREAD_SAFETY_ANALYSIS
    {
        if (!mutex_.try_lock())
            return false;
        order_.enter();
        return true;
    }
    void unlock() RELEASE() NO_THREAD_SAFETY_ANALYSIS
    {
        mutex_.unlock();
        order_.leave();
    }

private:
    friend class condition;
    std::mutex mutex_;
    [[no_unique_address]] lock_order order_;
};

class CAPABILITY("shared_mutex") ordered_shared_mutex
{
public:
    explicit ordered_shared_mutex(lock_level level) noexcept : order_(level) {}

    void lock() ACQUIRE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.enter();
        mutex_.lock();
    }
    void unlock() RELEASE() NO_THREAD_SAFETY_ANALYSIS
    {
        mutex_.unlock();
        order_.leave();
    }
    void lock_shared() ACQUIRE_SHARED() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.enter();
        mutex_.lock_shared();
    }
    void unlock_shared() RELEASE_SHARED() NO_THREAD_SAFETY_ANALYSIS
    {
        mutex_.unlock_shared();
        order_.leave();
    }

private:
    std::shared_mutex mutex_;
    [[no_unique_address]] lock_order order_;
};

class SCOPED_CAPABILITY shared_guard
{
public:
    explicit shared_guard(ordered_shared_mutex &taken) ACQUIRE_SHARED(taken) : lock_(taken) { lock_.lock_shared(); }
    ~shared_guard() RELEASE() { lock_.unlock_shared(); }
    shared_guard(const shared_guard &) = delete;

private:
    ordered_shared_mutex &lock_;
};

template<typename Lock>
class SCOPED_CAPABILITY lock_guard
{
public:
    explicit lock_guard(Lock &taken) ACQUIRE(taken) : lock_(taken) { lock_.lock(); }
    lock_guard(Lock &held, std::adopt_lock_t) REQUIRES(held) : lock_(held) {}
    ~lock_guard() RELEASE() { lock_.unlock(); }
    lock_guard(const lock_guard &) = delete;

private:
    Lock &lock_;
};

template<typename Lock>
class SCOPED_CAPABILITY unique_lock
{
public:
    explicit unique_lock(Lock &taken) ACQUIRE(taken) : lock_(taken) { lock_.lock(); }
    ~unique_lock() RELEASE()
    {
        if (held_)
            lock_.unlock();
    }
    unique_lock(const unique_lock &) = delete;

    void lock() ACQUIRE()
    {
        lock_.lock();
        held_ = true;
    }
    void unlock() RELEASE()
    {
        held_ = false;
        lock_.unlock();
    }

private:
    Lock &lock_;
    bool held_ = true;
};

// Like std::condition_variable, without a predicate: callers loop, so that thread-safety analysis sees the lock.
class condition
{
public:
    void wait(ordered_mutex &held) REQUIRES(held)
    {
        std::unique_lock native(held.mutex_, std::adopt_lock);
        changed_.wait(native);
        native.release();
    }
    void wait_for(ordered_mutex &held, std::chrono::microseconds limit) REQUIRES(held)
    {
        std::unique_lock native(held.mutex_, std::adopt_lock);
        changed_.wait_for(native, limit);
        native.release();
    }
    void notify_one() noexcept { changed_.notify_one(); }
    void notify_all() noexcept { changed_.notify_all(); }

private:
    std::condition_variable changed_;
};

} // namespace softrdma

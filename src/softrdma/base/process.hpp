// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock_order.hpp"
#include "base/reserve.hpp"
#include "base/thread_safety.hpp"
#include "base/unique_fd.hpp"

#include <atomic>
#include <memory>
#include <pthread.h>
#include <utility>

// State that belongs to one process: a child of fork() has neither the threads nor the connections of its parent.
namespace softrdma::process
{

unsigned generation() noexcept; // fork generation: number of forks between loading the library and this process

class birth
{
public:
    bool is_here() const noexcept { return generation_ == generation(); }

private:
    unsigned generation_ = generation();
};

// Descriptor that the event loop watches. In a child of fork() the loop closes it, so its destructor does not.
class watched_fd
{
public:
    watched_fd() = default;
    explicit watched_fd(unique_fd fd) noexcept : fd_(std::move(fd)) {}
    ~watched_fd()
    {
        if (!birth_.is_here())
            static_cast<void>(fd_.release());
    }
    void reset(unique_fd fd) noexcept { fd_ = std::move(fd); }
    int get() const noexcept { return fd_.get(); }

private:
    unique_fd fd_;
    birth birth_;
};

// Lock held while a per-process object is created; fork() waits for it. Recursive, because such objects need others,
// and not of the C library, because the forking thread has another ID in the child and could not unlock it.
class CAPABILITY("mutex") creation_lock
{
public:
    void lock() noexcept ACQUIRE();
    void unlock() noexcept RELEASE();

private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    lock_order order_{lock_level::creation};
};

extern creation_lock making;

class SCOPED_CAPABILITY creation
{
public:
    creation() noexcept ACQUIRE(making) { making.lock(); }
    ~creation() RELEASE() { making.unlock(); }
    creation(const creation &) = delete;
    creation &operator=(const creation &) = delete;
};

// Additional fork handlers. `before` is called with the creation lock, and `in_parent` or `in_child` after the fork.
struct fork_hooks {
    void (*before)() noexcept;
    void (*in_parent)() noexcept;
    void (*in_child)() noexcept;
};
void add_fork_hooks(const fork_hooks &hooks) noexcept REQUIRES(making); // adds handlers; at most four sets

void forget_objects_of_parent() noexcept REQUIRES(making);

class slot
{
public:
    constexpr slot() = default;

protected:
    friend void forget_objects_of_parent() noexcept;
    void publish(void *object) noexcept REQUIRES(making);

    std::atomic<void *> object_{nullptr};
    slot *next_ GUARDED_BY(making) = nullptr;
    bool is_listed_ GUARDED_BY(making) = false;
};

// Per-process object, created at its first use, never destroyed: threads may use it until the exit. Declare constinit.
template<typename T>
class single : public slot
{
public:
    template<typename Make>
    T &get(Make make)
    {
        void *found = object_.load(std::memory_order_acquire);
        if (found != nullptr) [[likely]]
            return *static_cast<T *>(found);
        const creation lock;
        found = object_.load(std::memory_order_relaxed);
        if (found == nullptr) {
            found = const_cast<void *>(static_cast<const void *>(make()));
            publish(found);
        }
        return *static_cast<T *>(found);
    }
    T &get()
    {
        return get([] {
            std::unique_ptr<void, void (*)(void *)> memory(reserve::allocate(sizeof(T)), reserve::release);
            T *created = new (memory.get()) T;
            (void)memory.release();
            return created;
        });
    }
    T *if_created() const noexcept { return static_cast<T *>(object_.load(std::memory_order_acquire)); }
};

template<typename T>
T &instance()
{
    static constinit single<T> one;
    return one.get();
}

inline constexpr bool yes = true;
inline constexpr bool no = false;

} // namespace softrdma::process

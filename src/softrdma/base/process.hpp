// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock_order.hpp"
#include "base/reserve.hpp"
#include "base/thread_safety.hpp"

#include <atomic>
#include <memory>
#include <pthread.h>
#include <utility>

// What belongs to one process. A child of fork() has a copy of everything that its parent has made, but neither its
// threads nor its connections: what the parent has made is of no use there, and the child makes its own.
namespace softrdma::process
{

// How often the processes before this one have forked since the library was loaded.
unsigned generation() noexcept;

// Tells whether an object was made by this very process.
class birth
{
public:
    bool is_here() const noexcept { return generation_ == generation(); }

private:
    unsigned generation_ = generation();
};

// Held while something is made that a process has once. fork() waits for it, so that no child finds half of such a
// thing. Recursive, as one such thing needs others. It is not a recursive mutex of the C library: the thread that forks
// has another number in the child, which may not give such a one back.
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

// What else fork() has to do. `before` is called with the creation lock, and either `in_parent` or `in_child` follows.
struct fork_hooks {
    void (*before)() noexcept;
    void (*in_parent)() noexcept;
    void (*in_child)() noexcept;
};
// At most four.
void add_fork_hooks(const fork_hooks &hooks) noexcept REQUIRES(making);

void forget_objects_of_parent() noexcept REQUIRES(making);

// Where the one object of its kind is found; a child forgets that of its parent.
class slot
{
public:
    constexpr slot() = default;
    slot(const slot &) = delete;
    slot &operator=(const slot &) = delete;

protected:
    friend void forget_objects_of_parent() noexcept;
    void publish(void *object) noexcept REQUIRES(making);

    std::atomic<void *> object_{nullptr};
    slot *next_ GUARDED_BY(making) = nullptr;
    bool is_listed_ GUARDED_BY(making) = false;
};

// The one object of its kind, made with its first use and never destroyed: threads of the program may use it until the
// process has ended. To be defined constinit.
template<typename T>
class single : public slot
{
public:
    // `make` gives a T that lasts.
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
            T *made = new (memory.get()) T;
            (void)memory.release();
            return made;
        });
    }
    T *if_made() const noexcept { return static_cast<T *>(object_.load(std::memory_order_acquire)); }
};

// What a process has done once, and how that went.
inline constexpr bool yes = true;
inline constexpr bool no = false;

} // namespace softrdma::process

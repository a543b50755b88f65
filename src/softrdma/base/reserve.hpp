// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

// Memory for the few small things that are made where nobody can be told that there is none: timers, and the events
// that say that a connection is lost. When the system has no more, they are made in memory that is kept for them.
namespace softrdma::reserve
{

// Throws std::bad_alloc if what is kept is used up as well, or the size is more than `largest`.
void *allocate(std::size_t size);
void release(void *memory) noexcept;
inline constexpr std::size_t largest = 1024;

// For containers and std::allocate_shared().
template<typename T>
struct allocator {
    using value_type = T;

    allocator() = default;
    template<typename U>
    allocator(const allocator<U> &) noexcept // NOLINT(google-explicit-constructor): as the standard asks
    {
    }
    T *allocate(std::size_t count) { return static_cast<T *>(reserve::allocate(count * sizeof(T))); }
    void deallocate(T *memory, std::size_t) noexcept { release(memory); }
    friend bool operator==(const allocator &, const allocator &) noexcept { return true; }
};

// What derives from it is made there.
struct object {
    static void *operator new(std::size_t size) { return allocate(size); }
    static void operator delete(void *memory) noexcept { release(memory); }
};

// A function without arguments, to be called once or more often.
class call
{
public:
    call() = default;
    template<typename Function>
    requires(!std::is_same_v<Function, call>)
            call(Function function) // NOLINT(google-explicit-constructor): a lambda is one
        : held_(new holder<Function>(std::move(function)))
    {
    }
    void operator()() const { held_->run(); }

private:
    struct base : object {
        virtual ~base() = default;
        virtual void run() = 0;
    };
    template<typename Function>
    struct holder final : base {
        explicit holder(Function f) : function(std::move(f)) {}
        void run() override { function(); }
        Function function;
    };

    std::unique_ptr<base> held_;
};

} // namespace softrdma::reserve

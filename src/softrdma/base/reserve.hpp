// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

// Reserved memory for a few small objects whose creation must not fail, because the failure could not be reported:
// timers and the events for lost connections. The reserve is used when the system is out of memory.
namespace softrdma::reserve
{

// Throws std::bad_alloc if the reserve is exhausted too, or if the size exceeds `max_size`.
void *allocate(std::size_t size);
void release(void *memory) noexcept;
inline constexpr std::size_t max_size = 1024;

template<typename T>
struct allocator {
    using value_type = T;

    allocator() = default;
    template<typename U>
    allocator(const allocator<U> &) noexcept // NOLINT(google-explicit-constructor): required by the standard
    {
    }
    T *allocate(std::size_t count) { return static_cast<T *>(reserve::allocate(count * sizeof(T))); }
    void deallocate(T *memory, std::size_t) noexcept { release(memory); }
    friend bool operator==(const allocator &, const allocator &) noexcept { return true; }
};

struct object { // base class of objects that are allocated here
    static void *operator new(std::size_t size) { return allocate(size); }
    static void operator delete(void *memory) noexcept { release(memory); }
};

struct prepared_call;

// A callable for one or several calls. Its function may take the prepared call that contains it, to use it again.
class call
{
public:
    call() = default;
    template<typename Function>
    requires(!std::is_same_v<Function, call>)
            call(Function function) // NOLINT(google-explicit-constructor): converts lambdas
        : held_(new holder<Function>(std::move(function)))
    {
    }
    void operator()(prepared_call &own) const { held_->run(own); }

private:
    struct base : object {
        virtual ~base() = default;
        virtual void run(prepared_call &own) = 0;
    };
    template<typename Function>
    struct holder final : base {
        explicit holder(Function f) : function(std::move(f)) {}
        void run(prepared_call &own) override
        {
            if constexpr (std::is_invocable_v<Function &, prepared_call &>)
                function(own);
            else
                function();
        }
        Function function;
    };

    std::unique_ptr<base> held_;
};

using call_queue = std::multimap<std::chrono::steady_clock::time_point, call, std::less<>,
        allocator<std::pair<const std::chrono::steady_clock::time_point, call>>>;

// An allocated entry of a queue of calls: deferring it requires no memory. Empty while it is in a queue.
struct prepared_call {
    prepared_call() = default;
    explicit prepared_call(call function) // throws std::bad_alloc
    {
        call_queue one;
        entry = one.extract(one.emplace(std::chrono::steady_clock::time_point(), std::move(function)));
    }

    call_queue::node_type entry;
};

} // namespace softrdma::reserve

// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_TASK_HPP
#define EXAMPLES_TASK_HPP

#include <coroutine>
#include <exception>
#include <utility>

// A coroutine that starts immediately and returns a status. Its owner polls is_done(). rpma.hpp works with any
// coroutine type, also with one of a coroutine library.
class task
{
public:
    struct promise_type {
        task get_return_object() { return task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_value(int with) noexcept { status = with; }
        void unhandled_exception() { std::terminate(); }
        int status = 0;
    };

    task(task &&other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    task &operator=(task &&) = delete;
    ~task()
    {
        if (coroutine_)
            coroutine_.destroy();
    }
    bool is_done() const { return coroutine_.done(); }
    int status() const { return coroutine_.promise().status; }

private:
    explicit task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
    std::coroutine_handle<promise_type> coroutine_;
};

#endif // EXAMPLES_TASK_HPP

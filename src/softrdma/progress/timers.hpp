// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/reserve.hpp"
#include "base/unique_fd.hpp"

#include <chrono>

namespace softrdma
{

class timers
{
public:
    int open();
    int descriptor() const noexcept { return descriptor_.get(); } // readable while a call is due

    void add(std::chrono::microseconds delay, reserve::prepared_call call) noexcept;
    // Calls the functions that are due, without a lock. A function that throws std::bad_alloc is called again later.
    void run_due();
    void after_fork_in_child() noexcept;

private:
    using clock = std::chrono::steady_clock;

    reserve::call_queue take_due();
    void run(reserve::prepared_call current) noexcept;
    void set_descriptor() REQUIRES(mutex_);

    unique_fd descriptor_;
    ordered_mutex mutex_{lock_level::tables};
    reserve::call_queue waiting_ GUARDED_BY(mutex_);
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/reserve.hpp"
#include "base/unique_fd.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <utility>

namespace softrdma
{

// Functions to be called at a given time.
class timers
{
public:
    // Returns 0 or an errno value.
    int open();
    // Readable while a call is due.
    int descriptor() const noexcept { return descriptor_.get(); }

    void add(std::chrono::microseconds delay, reserve::call call);
    // Calls the functions that are due, without a lock.
    void run_due();
    void after_fork_in_child() noexcept;

private:
    using clock = std::chrono::steady_clock;
    using queue = std::multimap<clock::time_point, reserve::call, std::less<>,
            reserve::allocator<std::pair<const clock::time_point, reserve::call>>>;

    queue take_due();
    void set_descriptor() REQUIRES(mutex_);

    unique_fd descriptor_;
    ordered_mutex mutex_{lock_level::tables};
    queue waiting_ GUARDED_BY(mutex_); // keyed by expiry
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <thread>

namespace softrdma
{

// Polls until `condition` is true; returns false after `limit`. For short waits. The caller must not hold a lock.
template<typename Condition>
bool becomes_true_within(std::chrono::steady_clock::duration limit, Condition condition)
{
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (unsigned tries = 0; !condition(); ++tries) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(tries < 1024 ? 1 : 100));
    }
    return true;
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <poll.h>

#include "engine/clock.hpp"

namespace bench
{

// False if the descriptor does not become readable in time. timeout_ms below 0: for ever.
inline bool wait_readable(int fd, int timeout_ms)
{
    const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000U;
    for (;;) {
        pollfd p{fd, POLLIN, 0};
        const std::uint64_t now = now_ns();
        const int left = timeout_ms < 0 ? -1 : now >= end ? 0 : static_cast<int>((end - now) / 1'000'000U + 1);
        const int ready = poll(&p, 1, left);
        if (ready > 0)
            return true;
        if (ready == 0)
            return false;
    }
}

} // namespace bench

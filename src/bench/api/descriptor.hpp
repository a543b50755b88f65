// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <poll.h>

#include "engine/clock.hpp"
#include "failure.hpp"

namespace bench
{

// Returns false if the descriptor does not become readable within timeout_ms. A negative timeout_ms means no limit.
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

inline void make_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        throw system_failure("cannot make a descriptor non-blocking");
}

} // namespace bench

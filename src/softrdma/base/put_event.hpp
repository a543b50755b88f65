// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <unistd.h>

namespace softrdma
{

// Adds one event to an eventfd. An error is ignored: the counter is full, so its reader is notified anyway.
inline void put_event(int fd) noexcept
{
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

} // namespace softrdma

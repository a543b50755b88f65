// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

// Clocks of the machine of a test program, whose CMake target needs ENABLE_EXPORTS.

inline std::atomic<int> suspended_s = 0;   // time of suspension, in which CLOCK_MONOTONIC did not continue
inline std::atomic<int> set_forward_s = 0; // error of CLOCK_REALTIME

// Replaces the function of the C library.
extern "C" int clock_gettime(clockid_t clock, timespec *to) noexcept
{
    const long result = syscall(SYS_clock_gettime, clock, to);
    to->tv_sec += clock == CLOCK_BOOTTIME ? suspended_s.load() : clock == CLOCK_REALTIME ? set_forward_s.load() : 0;
    return static_cast<int>(result);
}

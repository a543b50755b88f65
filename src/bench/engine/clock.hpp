// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <ctime>

namespace bench
{

inline std::uint64_t read_clock(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

// Monotonic time in nanoseconds, not slewed by adjustments of the system's clock.
inline std::uint64_t now_ns()
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

// Processor time of the whole process, including the threads of a software device.
inline std::uint64_t process_cpu_ns()
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

} // namespace bench

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

// Not slewed by the adjustment of the system's time.
inline std::uint64_t now_ns()
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

// Of the whole process, which includes the threads of a software device.
inline std::uint64_t process_cpu_ns()
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

} // namespace bench

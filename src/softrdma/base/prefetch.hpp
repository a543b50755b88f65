// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace softrdma
{

inline constexpr std::size_t cache_line = 64;

inline void fetch_to_store(const void *at, std::size_t bytes = 1) noexcept
{
    const auto *begin = static_cast<const char *>(at);
    for (const char *next = begin; next < begin + bytes; next += cache_line) {
#ifdef __x86_64__
        asm volatile("prefetchw %0" : : "m"(*next)); // a CPU without this instruction executes it as a no-op
#else
        __builtin_prefetch(next, 1);
#endif
    }
}

} // namespace softrdma

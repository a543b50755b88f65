// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/mapping.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace softrdma::pmem
{

#if defined(__x86_64__)

namespace
{

constexpr std::uintptr_t line_size = 64;

__attribute__((target("clwb"))) void clwb_lines(std::uintptr_t at, std::uintptr_t end) noexcept
{
    for (; at < end; at += line_size)
        _mm_clwb(reinterpret_cast<void *>(at));
}

__attribute__((target("clflushopt"))) void clflushopt_lines(std::uintptr_t at, std::uintptr_t end) noexcept
{
    for (; at < end; at += line_size)
        _mm_clflushopt(reinterpret_cast<void *>(at));
}

void clflush_lines(std::uintptr_t at, std::uintptr_t end) noexcept
{
    for (; at < end; at += line_size)
        _mm_clflush(reinterpret_cast<void *>(at));
}

using flush_lines = void (*)(std::uintptr_t, std::uintptr_t) noexcept;

flush_lines best_flush() noexcept
{
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
        if ((ebx & bit_CLWB) != 0)
            return clwb_lines;
        if ((ebx & bit_CLFLUSHOPT) != 0)
            return clflushopt_lines;
    }
    return clflush_lines;
}

} // namespace

void write_back(std::uintptr_t begin, std::size_t length) noexcept
{
    static const flush_lines flush = best_flush();
    flush(begin & ~(line_size - 1), begin + length);
    _mm_sfence();
}

#elif defined(__aarch64__)

void write_back(std::uintptr_t begin, std::size_t length) noexcept
{
    std::uint64_t type = 0;
    asm("mrs %0, ctr_el0" : "=r"(type));
    const std::uintptr_t line_size = std::uintptr_t{4} << ((type >> 16) & 0xf);
    for (std::uintptr_t at = begin & ~(line_size - 1); at < begin + length; at += line_size)
        asm volatile("dc cvac, %0" ::"r"(at) : "memory");
    asm volatile("dsb ish" ::: "memory");
}

#else
#error "cache-line write-back is not known for this architecture"
#endif

} // namespace softrdma::pmem

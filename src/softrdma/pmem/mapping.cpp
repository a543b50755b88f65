// SPDX-License-Identifier: BSD-3-Clause
#include "pmem/mapping.hpp"
#include "base/log.hpp"
#include "base/proc_maps.hpp"
#include "pmem/page_sync.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace softrdma::pmem
{

namespace
{

// The file of the program, which contains its static variables, is not written to while the program runs.
bool is_program(const mapped_area &a)
{
    static const std::string path = [] {
        std::array<char, PATH_MAX> target{};
        const ssize_t length = readlink("/proc/self/exe", target.data(), target.size());
        return std::string(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    }();
    return a.path == path;
}

// Returns true for anonymous shared memory, which the kernel shows as a file.
bool is_unnamed(const mapped_area &a)
{
    return a.path == "/dev/zero (deleted)";
}

// Returns true for a file and for huge pages, which the kernel shows as a file.
bool may_lose_pages(const mapped_area &a)
{
    return a.inode != 0 && !is_unnamed(a) && !is_program(a);
}

bool is_shared_file(const mapped_area &a)
{
    return a.is_shared() && !a.path.empty() && !is_unnamed(a);
}

// A device-DAX character device is always mapped synchronously but carries no "sf" flag.
bool is_device_dax(const mapped_area &a)
{
    struct stat st = {};
    if (stat(a.path.c_str(), &st) != 0 || !S_ISCHR(st.st_mode))
        return false;
    char link[64];
    snprintf(link, sizeof(link), "/sys/dev/char/%u:%u/subsystem", major(st.st_rdev), minor(st.st_rdev));
    char target[256];
    const ssize_t n = readlink(link, target, sizeof(target) - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    const char *name = strrchr(target, '/');
    return name != nullptr && strcmp(name + 1, "dax") == 0;
}

// Returns true if the mapping that begins at `begin` is synchronous (MAP_SYNC); only smaps contains this flag.
bool is_synchronous(std::uintptr_t begin)
{
    proc_lines smaps("/proc/self/smaps");
    if (!smaps)
        return false;
    bool inside = false;
    while (const char *line = smaps.next()) {
        mapped_area a;
        if (strncmp(line, "VmFlags:", 8) == 0) {
            if (inside)
                return strstr(line, " sf") != nullptr;
        } else if (a.parse(line)) {
            inside = a.begin == begin;
        }
    }
    return false;
}

} // namespace

void mapping::add(extent e)
{
    if (!extents_.empty() && extents_.back().end == e.begin && extents_.back().kind == e.kind)
        extents_.back().end = e.end;
    else
        extents_.push_back(e);
}

int mapping::inspect(std::uintptr_t begin, std::size_t length, bool writable, mapping &out)
{
    const std::uintptr_t end = begin + length;
    if (end < begin)
        return EFAULT;
    proc_lines maps("/proc/self/maps");
    if (!maps) { // no other source shows whether memory belongs to a file, and so how it is made durable
        const int error = errno;
        log::write(log::level::error, "memory region: not registered: /proc/self/maps: %s (the device needs /proc)",
                strerror(error));
        return error;
    }
    std::uintptr_t covered = begin;
    while (covered < end) {
        const char *line = maps.next();
        if (line == nullptr)
            return EFAULT;
        mapped_area a;
        if (!a.parse(line) || a.end <= covered)
            continue;
        if (a.begin > covered || !a.is_readable() || (writable && !a.is_writable()))
            return EFAULT;
        const std::uintptr_t part_end = std::min(end, a.end);
        out.may_fault_ = out.may_fault_ || may_lose_pages(a);
        if (is_shared_file(a)) {
            const bool direct = is_device_dax(a) || is_synchronous(a.begin);
            out.add({covered, part_end, direct ? durability::direct_access : durability::file});
        }
        covered = part_end;
    }
    return 0;
}

void mapping::remember(std::uintptr_t begin, std::size_t length) const
{
    for (const extent &e : extents_) {
        const std::uintptr_t from = std::max(begin, e.begin);
        const std::uintptr_t to = std::min(begin + length, e.end);
        if (from < to)
            power_cut::about_to_store(from, to - from);
    }
}

bool mapping::is_durable(std::size_t length) const noexcept
{
    std::size_t durable = 0;
    for (const extent &e : extents_)
        durable += e.end - e.begin;
    return durable == length;
}

bool mapping::stored(std::uintptr_t begin, std::size_t length) const noexcept
{
    bool needs_sync = false;
    for (const extent &e : extents_) {
        const std::uintptr_t from = std::max(begin, e.begin);
        const std::uintptr_t to = std::min(begin + length, e.end);
        if (from >= to)
            continue;
        if (e.kind == durability::direct_access)
            write_back(from, to - from);
        else
            needs_sync = true;
        // In the simulation, a line is not durable before a flush.
        needs_sync = needs_sync || power_cut::armed();
    }
    return needs_sync;
}

int mapping::sync(std::uintptr_t begin, std::size_t length) const noexcept
{
    int error = 0;
    for (const extent &e : extents_) {
        const std::uintptr_t from = std::max(begin, e.begin);
        const std::uintptr_t to = std::min(begin + length, e.end);
        if (e.kind != durability::file || from >= to)
            continue;
        const int failed = sync_pages(from, to - from);
        if (failed != 0 && failed != ENOMEM) // ENOMEM: a part of the range is not mapped, and the rest has been written
            return failed;
        error = failed != 0 ? failed : error;
    }
    if (error != 0)
        return error;
    if (power_cut::armed()) [[unlikely]]
        power_cut::on_durable(begin, length);
    return 0;
}

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

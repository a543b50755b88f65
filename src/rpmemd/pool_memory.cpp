// SPDX-License-Identifier: BSD-3-Clause
#include "pool_memory.hpp"

#include <algorithm>
#include <stop_token>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <system_error>

#include "pool_header.hpp"

namespace rpmemd
{

namespace
{

constexpr std::size_t populate_step = std::size_t{2} << 20;

std::size_t usable_size(const part &p, std::size_t left_out)
{
    return p.size() / page_size * page_size - left_out;
}

std::size_t half_of_memory()
{
    struct sysinfo facts {
    };
    return sysinfo(&facts) == 0 ? facts.totalram / 2 * facts.mem_unit : 0;
}

// Populates pages. Pages of a file in the page cache are only read, so that they do not become dirty.
void populate_range(std::byte *from, std::size_t length, replica::medium kind)
{
    // Best effort: kernels before 5.14 do not support this.
    (void)madvise(from, length, kind == replica::medium::page_cache ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

void populate_steps(const std::stop_token &stop, std::span<std::byte> memory, replica::medium kind)
{
    for (std::size_t at = 0; at < memory.size() && !stop.stop_requested(); at += populate_step)
        populate_range(&memory[at], std::min(populate_step, memory.size() - at), kind);
}

} // namespace

int check_readable(std::span<const std::byte> memory)
{
    const auto before = reinterpret_cast<std::uintptr_t>(memory.data()) % page_size;
    auto *const from = const_cast<std::byte *>(memory.data()) - before;
    // Kernels before 5.14 return EINVAL. Other errors, such as ENOMEM, do not concern the medium.
    const bool is_readable =
            madvise(from, memory.size() + before, MADV_POPULATE_READ) == 0 || (errno != EFAULT && errno != EHWPOISON);
    return is_readable ? 0 : errno;
}

failure unreadable_parts(const std::string &set_name, int error)
{
    return failure(EIO, "'" + set_name + "': cannot read the parts: " + std::strerror(error) +
                                " (a part was truncated, or its medium is damaged)");
}

std::uint64_t usable_size(const std::vector<part> &parts, std::size_t left_out)
{
    std::uint64_t size = 0;
    for (const part &p : parts)
        size += usable_size(p, &p == &parts.front() ? 0 : left_out);
    return size;
}

pool_memory::pool_memory(const std::vector<part> &parts, std::size_t left_out, const std::vector<part> &added)
{
    const std::uint64_t size = usable_size(parts, left_out) + usable_size(added, 0);
    if (const int error = map_.reserve(size); error != 0)
        throw failure(
                replica::errno_from(error), std::string("cannot reserve addresses for the pool: ") + pmem2_errormsg());
    for (const std::vector<part> *const some : {&parts, &added})
        for (const part &p : *some) {
            const std::size_t skipped = map_.size() == 0 ? 0 : left_out;
            p.map(map_, skipped, usable_size(p, skipped));
        }
}

void pool_memory::populate()
{
    const std::span<std::byte> memory(address(), std::min(size(), half_of_memory()));
    try {
        populating_ = std::jthread(
                [memory, kind = medium()](const std::stop_token &stop) { populate_steps(stop, memory, kind); });
    } catch (const std::system_error &) {
        // Best effort: without the thread, the first write to each page takes longer.
    }
}

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#include "store/pool_memory.hpp"

#include <algorithm>
#include <cstring>
#include <stop_token>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <system_error>

#include "memory_guard.hpp"
#include "region/segments.hpp"
#include "store/pool_header.hpp"

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

// Returns false if `read`, which owns no resources, accesses a page that cannot be read.
template<class F>
bool read_guarded(const F &read)
{
    memory_guard::install();
    return memory_guard::call([](void *argument) { (*static_cast<const F *>(argument))(); }, const_cast<F *>(&read));
}

} // namespace

std::string hash_parts(const std::string &set_name, std::span<const std::byte> memory)
{
    std::string hashes;
    memory = memory.first(std::min<std::size_t>(memory.size(), replica::max_hashes * replica::segment_size));
    while (!memory.empty()) {
        const auto segment = memory.first(std::min<std::size_t>(memory.size(), replica::segment_size));
        replica::segment_hash hash;
        if (!read_guarded([&] { hash = replica::hash_segment(segment); }))
            throw unreadable_parts(set_name, EIO);
        hashes += replica::bytes_of(hash);
        memory = memory.subspan(segment.size());
    }
    return hashes;
}

int copy_parts(std::span<const std::byte> from, std::byte *to)
{
    return read_guarded([&] { std::memcpy(to, from.data(), from.size()); }) ? 0 : EIO;
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

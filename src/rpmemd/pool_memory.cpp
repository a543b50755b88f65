// SPDX-License-Identifier: BSD-3-Clause
#include "pool_memory.hpp"

#include <algorithm>
#include <stop_token>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <system_error>

#include "failure.hpp"
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

// Reads pages of a file in the page cache, so that they do not become dirty and a large pool is not written back.
void populate_range(std::byte *from, std::size_t length, medium kind)
{
    // Best effort: kernels before 5.14 do not support this.
    (void)madvise(from, length, kind == medium::page_cache ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

void populate_steps(const std::stop_token &stop, std::span<std::byte> memory, medium kind)
{
    for (std::size_t at = 0; at < memory.size() && !stop.stop_requested(); at += populate_step)
        populate_range(&memory[at], std::min(populate_step, memory.size() - at), kind);
}

} // namespace

std::uint64_t usable_size(const std::vector<part> &parts, std::size_t left_out)
{
    std::uint64_t size = 0;
    for (const part &p : parts)
        size += usable_size(p, &p == &parts.front() ? 0 : left_out);
    return size;
}

pool_memory::pool_memory(const std::vector<part> &parts, std::size_t left_out, const std::vector<part> &added)
    : size_(usable_size(parts, left_out) + usable_size(added, 0)), range_(size_)
{
    std::size_t at = 0;
    for (const std::vector<part> *const some : {&parts, &added})
        for (const part &p : *some) {
            const std::size_t skipped = at == 0 ? 0 : left_out;
            maps_.emplace_back(p, skipped, usable_size(p, skipped), &range_, at);
            at += maps_.back().size();
        }
}

medium pool_memory::medium() const
{
    return std::ranges::min_element(maps_, {}, &part_map::medium)->medium();
}

template<class F>
int pool_memory::for_each_chunk(std::size_t offset, std::size_t length, F f) const
{
    std::size_t start = 0;
    for (const part_map &map : maps_) {
        const std::size_t end = start + map.size();
        if (length != 0 && offset < end) {
            const std::size_t chunk = std::min(length, end - offset);
            if (const int error = f(map, address() + offset, chunk); error != 0)
                return error;
            offset += chunk;
            length -= chunk;
        }
        start = end;
    }
    return 0;
}

int pool_memory::persist(std::size_t offset, std::size_t length) const
{
    return for_each_chunk(offset, length,
            [](const part_map &map, std::byte *from, std::size_t chunk) { return map.persist(from, chunk); });
}

int pool_memory::deep_persist(std::size_t offset, std::size_t length) const
{
    return for_each_chunk(offset, length,
            [](const part_map &map, std::byte *from, std::size_t chunk) { return map.deep_persist(from, chunk); });
}

void pool_memory::populate()
{
    const std::span<std::byte> memory(address(), std::min(size_, half_of_memory()));
    try {
        populating_ = std::jthread(
                [memory, kind = medium()](const std::stop_token &stop) { populate_steps(stop, memory, kind); });
    } catch (const std::system_error &) {
        // Best effort: without the thread, the first write to each page takes longer.
    }
}

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#include "disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "format.hpp"

namespace nbdkit_mirror
{

// Blocks and ranges that a write posts together.
struct disk::chunk {
    unsigned count = 0;
    std::uint64_t first = 0; // logical block
    std::array<std::uint32_t, chunk_blocks> blocks{};
    std::array<std::uint32_t, chunk_blocks> values{}; // new values of map_, or `none` for an unchanged one
    std::array<rpma_mirror_range, std::size_t{2} * chunk_blocks> ranges{};
    unsigned n = 0;

    void add(std::uint64_t offset, std::uint64_t length)
    {
        for (unsigned i = n; i-- > 0 && i + 2 >= n;)
            if (ranges[i].offset + ranges[i].length == offset) {
                ranges[i].length += length;
                return;
            }
        ranges[n++] = {offset, length};
    }
};

// After 2 s without a confirmed flush, checks that this process is still the writer: it might have been stopped.
int disk::read(char *to, std::uint64_t offset, std::uint64_t count) noexcept
{
    constexpr std::int64_t max_age_ms = 2000;
    if (failed_)
        return EIO;
    copy_blocks(to, offset, count);
    if (boot_time_ms() - confirmed_ms_ > max_age_ms && confirm() != 0)
        return EIO;
    return failed_ ? EIO : 0;
}

// The shared lock prevents the reuse of blocks while they are read.
void disk::copy_blocks(char *to, std::uint64_t offset, std::uint64_t count) noexcept
{
    const std::shared_lock reader_guard(readers_);
    while (count != 0) {
        const std::uint64_t within = offset % block_size;
        const std::uint64_t n = std::min(count, block_size - within);
        const std::uint32_t block = map_[offset / block_size].load(std::memory_order_acquire);
        if (block == none || (block & hole) != 0)
            std::memset(to, 0, n);
        else
            std::memcpy(to, data(block) + within, n);
        to += n;
        offset += n;
        count -= n;
    }
}

std::uint64_t disk::extent(std::uint64_t offset, std::uint64_t count, bool &is_hole) const noexcept
{
    const std::uint64_t end = offset + count;
    const auto hole_at = [&](std::uint64_t at) { return (map_[at / block_size] & hole) != 0; };
    is_hole = hole_at(offset);
    std::uint64_t at = (offset / block_size + 1) * block_size;
    while (at < end && hole_at(at) == is_hole)
        at += block_size;
    return std::min(at, end) - offset;
}

int disk::allocate(unsigned count, std::uint32_t *blocks) noexcept
{
    for (;;) {
        {
            const std::lock_guard guard(pool_);
            if (free_count_ >= count) {
                free_count_ -= count;
                for (unsigned i = 0; i < count; ++i) {
                    blocks[i] = free_[free_first_];
                    free_first_ = in_ring(free_first_ + 1);
                }
                return 0;
            }
        }
        if (const int error = drain(); error != 0)
            return error;
    }
}

disk::lane &disk::take_lane(unsigned &number) noexcept
{
    const auto lanes = static_cast<unsigned>(lanes_.size());
    const unsigned first = next_lane_++ % lanes;
    number = first;
    do {
        if (lanes_[number].lock.try_lock())
            return lanes_[number];
        number = number + 1 == lanes ? 0 : number + 1;
    } while (number != first);
    lanes_[number].lock.lock();
    return lanes_[number];
}

// Waits until all earlier writes are durable. Frees the blocks that they replaced, which no recovery needs then.
int disk::drain() noexcept
{
    const std::uint64_t started = drains_started_;
    const std::lock_guard guard(draining_);
    if (failed_)
        return EIO;
    if (drains_done_ > started)
        return 0; // another drain began after this call
    const std::uint64_t number = ++drains_started_;
    {
        const std::lock_guard pool_guard(pool_);
        drained_.swap(replaced_);
    }
    for (unsigned i = 0; i < lanes_.size(); ++i) {
        const std::lock_guard lane_guard(lanes_[i].lock);
        if (lanes_[i].ticket != 0 && rpma_mirror_flush_wait(mirror_, i, lanes_[i].ticket, -1) != 0)
            return fail(rpma_mirror_error_message());
    }
    {
        const std::unique_lock no_readers(readers_);
    }
    const std::lock_guard pool_guard(pool_);
    for (const std::uint32_t block : drained_)
        free_[in_ring(free_first_ + free_count_++)] = block;
    drained_.clear();
    drains_done_ = number;
    return failed_ ? EIO : 0;
}

// Writes data and headers to the allocated blocks. `from` is NULL for zeros.
int disk::fill(chunk &p, const char *from, std::uint64_t offset, std::uint64_t count) noexcept
{
    for (unsigned i = 0; i < p.count; ++i) {
        const std::uint64_t logical = p.first + i;
        const std::uint64_t start = std::max(offset, logical * block_size);
        const std::uint64_t end = std::min(offset + count, (logical + 1) * block_size);
        const bool whole = end - start == block_size;
        const std::uint32_t before = map_[logical];
        const bool was_hole = (before & hole) != 0;
        p.values[i] = none;
        if (from == nullptr && was_hole)
            continue;
        const std::uint32_t block = p.blocks[i];
        header next{++sequence_, logical, 0};
        p.values[i] = block;
        if (from == nullptr && whole) {
            next.logical |= header::hole_bit;
            p.values[i] |= hole;
        } else {
            char *const to = data(block);
            if (!whole && was_hole)
                std::memset(to, 0, block_size);
            else if (!whole)
                std::memcpy(to, data(before), block_size);
            if (from != nullptr)
                std::memcpy(to + (start - logical * block_size), from + (start - offset), end - start);
            else
                std::memset(to + (start - logical * block_size), 0, end - start);
            p.add(data_ + block * block_size, block_size);
        }
        next.hash = hash_of(next, block);
        headers_[block] = next;
        p.add(block_size + block * sizeof(header), sizeof(header));
    }
    return 0;
}

// Posts blocks of one group to all copies. The range must not cross a multiple of chunk_blocks blocks.
int disk::put_chunk(const char *from, std::uint64_t offset, std::uint64_t count, bool wait) noexcept
{
    chunk p;
    p.first = offset / block_size;
    p.count = static_cast<unsigned>((offset + count - 1) / block_size - p.first + 1);
    if (const int error = allocate(p.count, p.blocks.data()); error != 0)
        return error;
    unsigned number = 0;
    lane &used = take_lane(number);
    const std::lock_guard guard(used.lock, std::adopt_lock);
    {
        const std::lock_guard alone(groups_[p.first / chunk_blocks % groups_.size()]);
        fill(p, from, offset, count);
        if (p.n != 0 && rpma_mirror_flush_start(mirror_, number, p.ranges.data(), p.n, 0, &used.ticket) != 0)
            return fail(rpma_mirror_error_message());
        const std::lock_guard pool_guard(pool_);
        for (unsigned i = 0; i < p.count; ++i) {
            std::uint32_t unused = p.blocks[i];
            if (p.values[i] != none)
                unused = map_[p.first + i].exchange(p.values[i], std::memory_order_acq_rel);
            if (unused != none)
                replaced_.push_back(unused & ~hole);
        }
    }
    if (wait && p.n != 0 && rpma_mirror_flush_wait(mirror_, number, used.ticket, -1) != 0)
        return fail(rpma_mirror_error_message());
    return failed_ ? EIO : 0;
}

int disk::put(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    constexpr std::uint64_t group = chunk_blocks * block_size;
    const bool one = offset / group == (offset + count - 1) / group;
    while (count != 0) {
        if (failed_)
            return EIO;
        const std::uint64_t n = std::min(count, group - offset % group);
        if (const int error = put_chunk(from, offset, n, durable && one); error != 0)
            return error;
        from = from == nullptr ? nullptr : from + n;
        offset += n;
        count -= n;
    }
    return durable && !one ? drain() : 0;
}

int disk::write(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    return put(from, offset, count, durable);
}

int disk::zero(std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    return put(nullptr, offset, count, durable);
}

int disk::flush() noexcept
{
    return drain();
}

} // namespace nbdkit_mirror

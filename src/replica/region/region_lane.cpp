// SPDX-License-Identifier: BSD-3-Clause
#include "region/region_lane.hpp"

#include <algorithm>
#include <cstring>

namespace replica
{

namespace
{

// Maximum chunk of a write, in bytes, so that the timeout applies to progress, not to a whole range.
constexpr std::uint64_t max_chunk = 8 * 1024 * 1024;
// Minimum size of a chunk whose write is signaled, to report progress.
constexpr std::uint64_t signaled_chunk = 1024 * 1024;
// Maximum size of a chunk whose write is batched (RPMA_F_MORE) with the following operations.
constexpr std::uint64_t max_batched_chunk = 4096;

range first_chunk(range r)
{
    return {r.offset, std::min(r.length, max_chunk)};
}

void advance(range &r, range chunk)
{
    r.offset += chunk.length;
    r.length -= chunk.length;
}

} // namespace

// Reserves send queue entries for a write and for the request that must follow it.
int region_lane::reserve()
{
    while (!has_space_for(2)) {
        // Only a signaled operation can free entries: submits a request if none is outstanding.
        const int error = is_unsignaled() ? submit(lane_request_kind::flush) : wait_for_completion();
        if (error != 0)
            return error;
    }
    return 0;
}

int region_lane::post_write(range chunk, const rpma_mr_local *from, std::size_t from_offset)
{
    if (const int error = reserve(); error != 0)
        return error;
    const bool signaled = chunk.length >= signaled_chunk;
    const void *const operation = count_operation(posted::transfer, signaled);
    const int batched = chunk.length <= max_batched_chunk ? RPMA_F_MORE : 0;
    const int flags = signaled ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR | batched;
    const int result = rpma_write(
            conn(), path().data, chunk.offset - path().data_begin, from, from_offset, chunk.length, flags, operation);
    return result == 0 ? 0 : path().fail_rpma(result);
}

int region_lane::reserve_entry()
{
    return pending_.count == max_ranges ? submit(lane_request_kind::flush) : 0;
}

void region_lane::add_pending_range(range r)
{
    if (pending_.count > 0) {
        range &last = pending_.ranges[pending_.count - 1];
        if (last.offset + last.length == r.offset) {
            last.length += r.length;
            return;
        }
    }
    pending_.ranges[pending_.count++] = r;
}

int region_lane::post_chunks(range r, const rpma_mr_local *from, std::size_t from_offset)
{
    while (r.length > 0) {
        const range chunk = first_chunk(r);
        if (const int error = reserve_entry(); error != 0)
            return error;
        if (const int error = post_write(chunk, from, from_offset); error != 0)
            return error;
        add_pending_range(chunk);
        from_offset += chunk.length;
        advance(r, chunk);
    }
    return 0;
}

int region_lane::flush(range r)
{
    return post_chunks(r, path().region, r.offset);
}

int region_lane::include(range r)
{
    if (const int error = reserve_entry(); error != 0)
        return error;
    add_pending_range(r);
    return 0;
}

int region_lane::flush_word(std::uint64_t offset, const char bytes[8])
{
    // A plain write of an aligned word is not torn by known devices either.
    if (!path().native_operations)
        return flush({offset, 8});
    if (const int error = reserve_entry(); error != 0)
        return error;
    if (const int error = reserve(); error != 0)
        return error;
    const int result = rpma_atomic_write(conn(), path().data, offset - path().data_begin, bytes,
            RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, count_operation(posted::transfer, false));
    add_pending_range({offset, 8});
    return result == 0 ? 0 : path().fail_rpma(result);
}

int region_lane::submit(lane_request_kind kind)
{
    if (const int error = wait_below(path().window, path().depth); error != 0)
        return error;
    const bool by_message = path().method == method::messages || kind == lane_request_kind::deep_flush;
    const int result = by_message ? submit_message(kind) : submit_flush();
    pending_.count = 0;
    return result == 0 ? 0 : path().fail_rpma(result);
}

int region_lane::submit_message(lane_request_kind kind)
{
    pending_.kind = kind;
    pending_.sequence = next_sequence();
    const std::size_t at = memory().request_at(pending_.sequence);
    const std::size_t size = encode(pending_, memory().at(at));
    return rpma_send(
            conn(), memory().registered(), at, size, RPMA_F_COMPLETION_ALWAYS, count_request(posted::transfer));
}

int region_lane::submit_flush()
{
    std::uint64_t begin = pending_.ranges[0].offset;
    std::uint64_t end = begin;
    for (std::uint32_t i = 0; i < pending_.count; ++i) {
        begin = std::min(begin, pending_.ranges[i].offset);
        end = std::max(end, pending_.ranges[i].offset + pending_.ranges[i].length);
    }
    const auto type =
            path().method == method::persistent_flush ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;
    return rpma_flush(conn(), path().data, begin - path().data_begin, end - begin, type, RPMA_F_COMPLETION_ALWAYS,
            count_request(posted::request));
}

int region_lane::begin_drain(lane_request_kind kind)
{
    if (path().lost.error() != 0)
        return path().lost.error();
    return pending_.count > 0 ? submit(kind) : 0;
}

int region_lane::drain(lane_request_kind kind)
{
    const int error = begin_drain(kind);
    return error == 0 ? wait_below(1, ~0U) : error;
}

int region_lane::write(const void *from, range r)
{
    rpma_mr_local *memory = nullptr;
    if (rpma_mr_reg(path().peer, const_cast<void *>(from), r.length, RPMA_MR_USAGE_WRITE_SRC, &memory) != 0)
        return path().fail(ENOMEM);
    const int error = post_chunks(r, memory, 0);
    // Drains first, because outstanding writes read the memory that is deregistered.
    const int drained = drain();
    rpma_mr_dereg(&memory);
    return error == 0 ? drained : error;
}

int region_lane::read_chunk(rpma_mr_local *to, std::size_t to_offset, range chunk)
{
    const bool in_header = chunk.offset < path().data_begin;
    if (const int error = drain(); error != 0)
        return error;
    if (const int error = wait_below(~0U, path().depth); error != 0)
        return error;
    const int result = rpma_read(conn(), to, to_offset, in_header ? path().header : path().data,
            in_header ? chunk.offset : chunk.offset - path().data_begin, chunk.length, RPMA_F_COMPLETION_ALWAYS,
            count_request(posted::request));
    return result == 0 ? wait_below(1, ~0U) : path().fail_rpma(result);
}

int region_lane::read_through_memory(std::byte *to, range r)
{
    while (r.length > 0) {
        const range chunk{r.offset, std::min<std::uint64_t>(r.length, lane_memory::bounce_size)};
        if (const int error = read_chunk(memory().registered(), memory().bounce_at(), chunk); error != 0)
            return error;
        std::memcpy(to, memory().at(memory().bounce_at()), chunk.length);
        to += chunk.length;
        advance(r, chunk);
    }
    return 0;
}

int region_lane::read_chunks(rpma_mr_local *to, std::size_t to_offset, range r)
{
    while (r.length > 0) {
        const range chunk = first_chunk(r);
        if (const int error = read_chunk(to, to_offset, chunk); error != 0)
            return error;
        to_offset += chunk.length;
        advance(r, chunk);
    }
    return 0;
}

int region_lane::fetch(range r)
{
    return read_chunks(path().region, r.offset, r);
}

int region_lane::read(void *to, range r)
{
    auto *at = static_cast<std::byte *>(to);
    if (r.offset < path().data_begin) {
        // The header is a separate memory region.
        const range header{r.offset, std::min(r.length, path().data_begin - r.offset)};
        if (const int error = read_through_memory(at, header); error != 0)
            return error;
        at += header.length;
        advance(r, header);
    }
    rpma_mr_local *memory = nullptr;
    // Short ranges, and memory that cannot be registered, are read through the bounce buffer of the lane.
    if (r.length <= lane_memory::bounce_size ||
            rpma_mr_reg(path().peer, at, r.length, RPMA_MR_USAGE_READ_DST, &memory) != 0)
        return read_through_memory(at, r);
    const int error = read_chunks(memory, 0, r);
    rpma_mr_dereg(&memory);
    return error;
}

} // namespace replica

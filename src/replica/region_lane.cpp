// SPDX-License-Identifier: BSD-3-Clause
#include "region_lane.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <poll.h>

namespace replica
{

namespace
{

// Maximum chunk of a write, in bytes. A longer range is split, so that the timeout applies to the progress, not to the
// whole range.
constexpr std::uint64_t max_chunk = 8 * 1024 * 1024;
// Minimum size of a chunk whose write is signaled, to report progress.
constexpr std::uint64_t signaled_chunk = 1024 * 1024;
// Maximum size of a chunk whose write is batched (RPMA_F_MORE) with the following operations.
constexpr std::uint64_t max_batched_chunk = 4096;
constexpr std::size_t bounce_size = 16 * 1024;
constexpr std::size_t memory_alignment = 4096;

// Returns the first chunk of a range.
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

std::size_t region_lane::request_at(std::uint64_t sequence) const
{
    return sequence % path_->window * max_lane_request_size;
}

std::size_t region_lane::answer_at(std::uint32_t slot) const
{
    return path_->window * max_lane_request_size + slot * lane_answer_size;
}

std::size_t region_lane::bounce_at() const
{
    return answer_at(path_->window);
}

int region_lane::make_memory()
{
    const std::size_t size = (bounce_at() + bounce_size + memory_alignment - 1) / memory_alignment * memory_alignment;
    void *memory = nullptr;
    if (const int error = posix_memalign(&memory, memory_alignment, size); error != 0)
        return error;
    memory_ = static_cast<std::byte *>(memory);
    std::memset(memory_, 0, size);
    const int usage = RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_READ_DST;
    return rpma_mr_reg(path_->peer, memory_, size, usage, &registered_) == 0 ? 0 : ENOMEM;
}

int region_lane::connect(data_path &path, const char *address, const char *port, std::span<const std::byte> proof)
{
    path_ = &path;
    if (const int error = make_memory(); error != 0)
        return error;
    rpma_conn_cfg *cfg = nullptr;
    if (rpma_conn_cfg_new(&cfg) != 0)
        return ENOMEM;
    rpma_conn_cfg_set_sq_size(cfg, path.depth);
    rpma_conn_cfg_set_rq_size(cfg, path.window);
    rpma_conn_cfg_set_cq_size(cfg, path.depth + path.window);
    if (path.timeout_ms != 0)
        rpma_conn_cfg_set_timeout(cfg, path.timeout_ms);
    rpma_conn_req *request = nullptr;
    const int result = rpma_conn_req_new(path.peer, address, port, cfg, &request);
    rpma_conn_cfg_delete(&cfg);
    if (result != 0)
        return ECONNREFUSED;
    for (std::uint32_t slot = 0; slot < path.window; ++slot) {
        if (rpma_conn_req_recv(request, registered_, answer_at(slot), lane_answer_size,
                    reinterpret_cast<const void *>(posted::answer)) != 0) {
            rpma_conn_req_delete(&request);
            return ENOMEM;
        }
    }
    const rpma_conn_private_data data{const_cast<std::byte *>(proof.data()), static_cast<std::uint8_t>(proof.size())};
    return rpma_conn_req_connect(&request, &data, &conn_) == 0 ? 0 : ECONNREFUSED;
}

bool region_lane::flushes_natively() const
{
    bool natively = false;
    return rpma_conn_get_native_flush(conn_, &natively) == 0 && natively;
}

int region_lane::connected(const deadline &until)
{
    rpma_conn_get_event_fd(conn_, &event_fd_);
    for (;;) {
        pollfd pollers[] = {{event_fd_, POLLIN, 0}, {path_->lost.fd(), POLLIN, 0}, {until.interrupt_fd(), POLLIN, 0}};
        const int ready = poll(pollers, 3, until.left_ms());
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready > 0 && pollers[0].revents != 0)
            break;
        return ready > 0 && pollers[1].revents != 0 ? path_->lost.error() : ETIMEDOUT;
    }
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    if (rpma_conn_next_event(conn_, &event) != 0 || event != RPMA_CONN_ESTABLISHED)
        return event == RPMA_CONN_UNREACHABLE ? EHOSTUNREACH : ECONNREFUSED;
    if (path_->peer_cfg != nullptr && rpma_conn_apply_remote_peer_cfg(conn_, path_->peer_cfg) != 0)
        return EPROTO;
    if (rpma_conn_get_cq(conn_, &cq_) != 0 || rpma_cq_get_fd(cq_, &cq_fd_) != 0)
        return ENOMEM;
    return 0;
}

region_lane::~region_lane()
{
    if (conn_ != nullptr) {
        if (cq_ != nullptr)
            rpma_conn_disconnect(conn_);
        rpma_conn_delete(&conn_);
    }
    if (registered_ != nullptr)
        rpma_mr_dereg(&registered_);
    std::free(memory_);
}

int region_lane::fail_lane(int error)
{
    path_->lost.declare(error);
    return path_->lost.error();
}

int region_lane::fail_lane_rpma(int error)
{
    return fail_lane(error == RPMA_E_NOMEM ? ENOMEM : error == RPMA_E_PROVIDER ? ECONNRESET : EPROTO);
}

const void *region_lane::context(posted kind)
{
    const std::uintptr_t complete = unsignaled_;
    return reinterpret_cast<const void *>(complete << kind_bits | static_cast<std::uintptr_t>(kind));
}

// Reserves send queue entries for a write and for the request that must follow it.
int region_lane::reserve()
{
    while (operations_ + 2 > path_->depth) {
        // Only a signaled operation can free entries: submits a request if none is outstanding.
        const int error = operations_ == unsignaled_ ? submit(lane_request_kind::flush) : wait_below(~0U, operations_);
        if (error != 0)
            return error;
    }
    return 0;
}

int region_lane::post_write(range chunk, const rpma_mr_local *from, std::size_t from_offset)
{
    if (const int error = reserve(); error != 0)
        return error;
    ++operations_;
    ++unsignaled_;
    const bool signaled = chunk.length >= signaled_chunk;
    const void *const operation = context(posted::transfer);
    if (signaled)
        unsignaled_ = 0;
    const std::size_t offset = chunk.offset;
    const int batched = chunk.length <= max_batched_chunk ? RPMA_F_MORE : 0;
    const int flags = signaled ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR | batched;
    const int result = rpma_write(
            conn_, path_->data, offset - path_->data_begin, from, from_offset, chunk.length, flags, operation);
    return result == 0 ? 0 : fail_lane_rpma(result);
}

// Reserves an entry for one more range in the next request.
int region_lane::reserve_entry()
{
    return pending_.count == max_ranges ? submit(lane_request_kind::flush) : 0;
}

// Adds the range to the next request.
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
    return post_chunks(r, path_->region, r.offset);
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
    // Known devices do not tear an aligned word of a plain write either.
    if (!path_->native_operations)
        return flush({offset, 8});
    if (const int error = reserve_entry(); error != 0)
        return error;
    if (const int error = reserve(); error != 0)
        return error;
    ++operations_;
    ++unsignaled_;
    const int result = rpma_atomic_write(conn_, path_->data, offset - path_->data_begin, bytes,
            RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, context(posted::transfer));
    add_pending_range({offset, 8});
    return result == 0 ? 0 : fail_lane_rpma(result);
}

int region_lane::submit(lane_request_kind kind)
{
    if (const int error = wait_below(path_->window, path_->depth); error != 0)
        return error;
    const bool by_message = path_->method == method::messages || kind == lane_request_kind::deep_flush;
    ++operations_;
    ++unsignaled_;
    const int result = by_message ? submit_message(kind) : submit_flush();
    unsignaled_ = 0;
    pending_.count = 0;
    ++submitted_;
    return result == 0 ? 0 : fail_lane_rpma(result);
}

int region_lane::submit_message(lane_request_kind kind)
{
    pending_.kind = kind;
    pending_.sequence = ++sequence_;
    const std::size_t at = request_at(pending_.sequence);
    const std::size_t size = encode(pending_, memory_ + at);
    return rpma_send(conn_, registered_, at, size, RPMA_F_COMPLETION_ALWAYS, context(posted::transfer));
}

// Posts one flush that covers all pending ranges.
int region_lane::submit_flush()
{
    std::uint64_t begin = pending_.ranges[0].offset;
    std::uint64_t end = begin;
    for (std::uint32_t i = 0; i < pending_.count; ++i) {
        begin = std::min(begin, pending_.ranges[i].offset);
        end = std::max(end, pending_.ranges[i].offset + pending_.ranges[i].length);
    }
    const auto type =
            path_->method == method::persistent_flush ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;
    return rpma_flush(conn_, path_->data, begin - path_->data_begin, end - begin, type, RPMA_F_COMPLETION_ALWAYS,
            context(posted::request));
}

int region_lane::begin_drain(lane_request_kind kind)
{
    if (path_->lost.error() != 0)
        return path_->lost.error();
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
    if (rpma_mr_reg(path_->peer, const_cast<void *>(from), r.length, RPMA_MR_USAGE_WRITE_SRC, &memory) != 0)
        return fail_lane(ENOMEM);
    const int error = post_chunks(r, memory, 0);
    // Outstanding writes read the memory, so drain() precedes its deregistration.
    const int drained = drain();
    rpma_mr_dereg(&memory);
    return error == 0 ? drained : error;
}

int region_lane::read_chunk(rpma_mr_local *to, std::size_t to_offset, range chunk)
{
    const bool in_header = chunk.offset < path_->data_begin;
    if (const int error = drain(); error != 0)
        return error;
    if (const int error = wait_below(~0U, path_->depth); error != 0)
        return error;
    ++operations_;
    ++unsignaled_;
    const void *const operation = context(posted::request);
    unsignaled_ = 0;
    ++submitted_;
    const int result = rpma_read(conn_, to, to_offset, in_header ? path_->header : path_->data,
            in_header ? chunk.offset : chunk.offset - path_->data_begin, chunk.length, RPMA_F_COMPLETION_ALWAYS,
            operation);
    return result == 0 ? wait_below(1, ~0U) : fail_lane_rpma(result);
}

int region_lane::read_through_memory(std::byte *to, range r)
{
    while (r.length > 0) {
        const range chunk{r.offset, std::min<std::uint64_t>(r.length, bounce_size)};
        if (const int error = read_chunk(registered_, bounce_at(), chunk); error != 0)
            return error;
        std::memcpy(to, memory_ + bounce_at(), chunk.length);
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
    return read_chunks(path_->region, r.offset, r);
}

int region_lane::read(void *to, range r)
{
    auto *at = static_cast<std::byte *>(to);
    if (r.offset < path_->data_begin) {
        // The header is a separate memory region.
        const range header{r.offset, std::min(r.length, path_->data_begin - r.offset)};
        if (const int error = read_through_memory(at, header); error != 0)
            return error;
        at += header.length;
        advance(r, header);
    }
    rpma_mr_local *memory = nullptr;
    // Short ranges, and memory that cannot be registered, are read through the bounce buffer of the lane.
    if (r.length <= bounce_size || rpma_mr_reg(path_->peer, at, r.length, RPMA_MR_USAGE_READ_DST, &memory) != 0)
        return read_through_memory(at, r);
    const int error = read_chunks(memory, 0, r);
    rpma_mr_dereg(&memory);
    return error;
}

} // namespace replica

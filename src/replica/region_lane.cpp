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

// A longer range is written in pieces, so that the deadline is about progress.
constexpr std::uint64_t longest_piece = 8 * 1024 * 1024;
// A piece from here on reports its completion, which is the progress.
constexpr std::uint64_t reported_piece = 1024 * 1024;
// A piece up to here is kept, and posted together with what follows.
constexpr std::uint64_t longest_kept_piece = 4096;
constexpr std::size_t bounce_size = 16 * 1024;
constexpr std::size_t memory_alignment = 4096;

// The part of a range that is posted at once.
range piece_of(range r)
{
    return {r.offset, std::min(r.length, longest_piece)};
}

void advance(range &r, range piece)
{
    r.offset += piece.length;
    r.length -= piece.length;
}

} // namespace

std::size_t region_lane::request_at(std::uint64_t sequence) const
{
    return sequence % path_->window * longest_lane_request;
}

std::size_t region_lane::answer_at(std::uint32_t slot) const
{
    return path_->window * longest_lane_request + slot * lane_answer_size;
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
    const int made = rpma_conn_req_new(path.peer, address, port, cfg, &request);
    rpma_conn_cfg_delete(&cfg);
    if (made != 0)
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

int region_lane::lose(int error)
{
    path_->lost.declare(error);
    return path_->lost.error();
}

int region_lane::lose_rpma(int error)
{
    return lose(error == RPMA_E_NOMEM ? ENOMEM : error == RPMA_E_PROVIDER ? ECONNRESET : EPROTO);
}

const void *region_lane::context(posted kind)
{
    const std::uintptr_t complete = unreported_;
    return reinterpret_cast<const void *>(complete << kind_bits | static_cast<std::uintptr_t>(kind));
}

// Makes room in the send queue for a write and the request that has to follow it.
int region_lane::reserve()
{
    while (operations_ + 2 > path_->depth) {
        // Something that is under way has to report.
        const int error = operations_ == unreported_ ? submit(lane_request_kind::flush) : wait_below(~0U, operations_);
        if (error != 0)
            return error;
    }
    return 0;
}

int region_lane::post_write(range piece, const rpma_mr_local *from, std::size_t from_offset)
{
    if (const int error = reserve(); error != 0)
        return error;
    ++operations_;
    ++unreported_;
    const bool reported = piece.length >= reported_piece;
    const void *const operation = context(posted::transfer);
    if (reported)
        unreported_ = 0;
    const std::size_t offset = piece.offset;
    const int kept = piece.length <= longest_kept_piece ? RPMA_F_MORE : 0;
    const int flags = reported ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR | kept;
    const int result = rpma_write(
            conn_, path_->data, offset - path_->data_begin, from, from_offset, piece.length, flags, operation);
    return result == 0 ? 0 : lose_rpma(result);
}

// For one more range in the request that comes next.
int region_lane::make_room()
{
    return pending_.count == most_ranges ? submit(lane_request_kind::flush) : 0;
}

// Adds the range to the request that comes next.
void region_lane::note(range r)
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

int region_lane::post_pieces(range r, const rpma_mr_local *from, std::size_t from_offset)
{
    while (r.length > 0) {
        const range piece = piece_of(r);
        if (const int error = make_room(); error != 0)
            return error;
        if (const int error = post_write(piece, from, from_offset); error != 0)
            return error;
        note(piece);
        from_offset += piece.length;
        advance(r, piece);
    }
    return 0;
}

int region_lane::flush(range r)
{
    return post_pieces(r, path_->region, r.offset);
}

int region_lane::include(range r)
{
    if (const int error = make_room(); error != 0)
        return error;
    note(r);
    return 0;
}

int region_lane::flush8(std::uint64_t offset, const char bytes[8])
{
    // An aligned word of a plain write is not torn either, as far as devices are known.
    if (!path_->native_operations)
        return flush({offset, 8});
    if (const int error = make_room(); error != 0)
        return error;
    if (const int error = reserve(); error != 0)
        return error;
    ++operations_;
    ++unreported_;
    const int result = rpma_atomic_write(conn_, path_->data, offset - path_->data_begin, bytes,
            RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE, context(posted::transfer));
    note({offset, 8});
    return result == 0 ? 0 : lose_rpma(result);
}

int region_lane::submit(lane_request_kind kind)
{
    if (const int error = wait_below(path_->window, path_->depth); error != 0)
        return error;
    const bool by_message = path_->method == method::messages || kind == lane_request_kind::deep_flush;
    ++operations_;
    ++unreported_;
    const int result = by_message ? submit_message(kind) : submit_flush();
    unreported_ = 0;
    pending_.count = 0;
    ++submitted_;
    return result == 0 ? 0 : lose_rpma(result);
}

int region_lane::submit_message(lane_request_kind kind)
{
    pending_.kind = kind;
    pending_.sequence = ++sequence_;
    const std::size_t at = request_at(pending_.sequence);
    const std::size_t size = encode(pending_, memory_ + at);
    return rpma_send(conn_, registered_, at, size, RPMA_F_COMPLETION_ALWAYS, context(posted::transfer));
}

// One flush that covers everything that was written.
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
        return lose(ENOMEM);
    const int error = post_pieces(r, memory, 0);
    // What is under way reads the memory.
    const int drained = drain();
    rpma_mr_dereg(&memory);
    return error == 0 ? drained : error;
}

int region_lane::read_piece(rpma_mr_local *to, std::size_t to_offset, range piece)
{
    const bool in_header = piece.offset < path_->data_begin;
    if (const int error = drain(); error != 0)
        return error;
    if (const int error = wait_below(~0U, path_->depth); error != 0)
        return error;
    ++operations_;
    ++unreported_;
    const void *const operation = context(posted::request);
    unreported_ = 0;
    ++submitted_;
    const int result = rpma_read(conn_, to, to_offset, in_header ? path_->header : path_->data,
            in_header ? piece.offset : piece.offset - path_->data_begin, piece.length, RPMA_F_COMPLETION_ALWAYS,
            operation);
    return result == 0 ? wait_below(1, ~0U) : lose_rpma(result);
}

int region_lane::read_through_memory(std::byte *to, range r)
{
    while (r.length > 0) {
        const range piece{r.offset, std::min<std::uint64_t>(r.length, bounce_size)};
        if (const int error = read_piece(registered_, bounce_at(), piece); error != 0)
            return error;
        std::memcpy(to, memory_ + bounce_at(), piece.length);
        to += piece.length;
        advance(r, piece);
    }
    return 0;
}

int region_lane::read_pieces(rpma_mr_local *to, std::size_t to_offset, range r)
{
    while (r.length > 0) {
        const range piece = piece_of(r);
        if (const int error = read_piece(to, to_offset, piece); error != 0)
            return error;
        to_offset += piece.length;
        advance(r, piece);
    }
    return 0;
}

int region_lane::fetch(range r)
{
    return read_pieces(path_->region, r.offset, r);
}

int region_lane::read(void *to, range r)
{
    auto *at = static_cast<std::byte *>(to);
    if (r.offset < path_->data_begin) {
        // The header is a region of its own.
        const range header{r.offset, std::min(r.length, path_->data_begin - r.offset)};
        if (const int error = read_through_memory(at, header); error != 0)
            return error;
        at += header.length;
        advance(r, header);
    }
    rpma_mr_local *memory = nullptr;
    // Memory that cannot be registered is reached through that of the lane.
    if (r.length <= bounce_size || rpma_mr_reg(path_->peer, at, r.length, RPMA_MR_USAGE_READ_DST, &memory) != 0)
        return read_through_memory(at, r);
    const int error = read_pieces(memory, 0, r);
    rpma_mr_dereg(&memory);
    return error;
}

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>

#include <span>

#include "clock.hpp"
#include "control.hpp"
#include "lane_message.hpp"
#include "lane_proof.hpp"
#include "loss.hpp"

namespace replica
{

// What the lanes of a region share.
struct data_path {
    rpma_peer *peer = nullptr;
    rpma_mr_local *region = nullptr;
    rpma_mr_remote *data = nullptr;
    rpma_mr_remote *header = nullptr;
    rpma_peer_cfg *peer_cfg = nullptr;
    // Where the remote region of the data begins in the pool.
    std::uint64_t data_begin = 0;
    replica::method method = method::messages;
    // The target's device has the operations that are native to the one of this side.
    bool native_operations = true;
    std::uint32_t window = 1;
    std::uint32_t depth = 2;
    int timeout_ms = 0;
    loss lost;
};

// One data connection. What it posts is executed in order. Functions return 0 or an errno, which then is the reason of
// the declared loss, too; ranges are checked by the caller.
class region_lane
{
public:
    // The lane's memory and its request to connect; connected() waits for the outcome.
    int connect(data_path &path, const char *address, const char *port, std::span<const std::byte> proof);
    int connected(const deadline &until);
    // Whether this side flushes natively; known from connect() on.
    bool flushes_natively() const;
    ~region_lane();
    region_lane() = default;
    region_lane(const region_lane &) = delete;
    region_lane &operator=(const region_lane &) = delete;

    // Starts to copy a range. drain() waits until all of them are durable, as deeply as kind says.
    int flush(range r);
    int drain(lane_request_kind kind = lane_request_kind::flush);
    // As flush(), for what is at the target already.
    int include(range r);
    // As flush(), for 8 bytes at a multiple of 8, which nobody sees in part; they are in the local memory as well.
    int flush8(std::uint64_t offset, const char bytes[8]);
    int read(void *to, range r);
    // Copies from memory outside of the region, and waits until it is durable.
    int write(const void *from, range r);
    // To the same place of the local memory, which was registered for it.
    int fetch(range r);

    // The first half of drain(), which does not wait, unless it has to for room.
    int begin_drain(lane_request_kind kind);
    // Posts what makes the ranges so far durable, in one go with those that are kept. The ticket is for wait().
    int submit(lane_request_kind kind);
    std::uint64_t ticket() const { return submitted_; }
    // Waits until all up to the ticket is durable. ETIMEDOUT, which declares nothing: there was no progress for the
    // time that is left, and after that for the timeout of the region.
    int wait(std::uint64_t ticket, deadline until);

private:
    // What a completion is of. Its context has this in the lowest bits, and above it how many operations are complete.
    static constexpr unsigned kind_bits = 2;
    enum class posted : std::uintptr_t {
        transfer,
        request,
        answer,
    };

    int make_memory();
    int post_write(range piece, const rpma_mr_local *from, std::size_t from_offset);
    int post_pieces(range r, const rpma_mr_local *from, std::size_t from_offset);
    int make_room();
    void note(range r);
    int submit_message(lane_request_kind kind);
    int submit_flush();
    int read_pieces(rpma_mr_local *to, std::size_t to_offset, range r);
    int read_piece(rpma_mr_local *to, std::size_t to_offset, range piece);
    int read_through_memory(std::byte *to, range r);

    // Counts the operation, and makes its completion say how many are complete with it.
    const void *context(posted kind);
    int reserve();
    int lose(int error);
    int lose_rpma(int error);

    // Waits until fewer than that many requests, and operations, are under way; declares the loss if that takes too
    // long.
    int wait_below(std::uint64_t requests, std::uint32_t operations);
    int wait_until(std::uint64_t finished, std::uint32_t operations, deadline until);
    std::uint64_t requests() const { return submitted_ - finished_; }
    int sleep(const deadline &until);
    int collect(bool *progress);
    int complete(const ibv_wc &wc);
    int answer_arrived(std::uint32_t length);
    int post_receive(std::uint32_t slot);

    std::size_t request_at(std::uint64_t sequence) const;
    std::size_t answer_at(std::uint32_t slot) const;
    std::size_t bounce_at() const;

    data_path *path_ = nullptr;
    rpma_conn *conn_ = nullptr;
    rpma_cq *cq_ = nullptr;
    int cq_fd_ = -1;
    int event_fd_ = -1;
    std::byte *memory_ = nullptr;
    rpma_mr_local *registered_ = nullptr;

    // Ranges that are written, but not yet part of a request.
    lane_request pending_;
    std::uint64_t sequence_ = 0;
    std::uint64_t answered_ = 0;
    // Requests, all and those with an answer, and operations that may still occupy the send queue.
    std::uint64_t submitted_ = 0;
    std::uint64_t finished_ = 0;
    std::uint32_t operations_ = 0;
    // Of these, posted since the last one whose completion is reported.
    std::uint32_t unreported_ = 0;
    std::uint32_t next_receive_ = 0;
};

} // namespace replica

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

// State shared by the lanes of a region.
struct data_path {
    rpma_peer *peer = nullptr;
    rpma_mr_local *region = nullptr;
    rpma_mr_remote *data = nullptr;
    rpma_mr_remote *header = nullptr;
    rpma_peer_cfg *peer_cfg = nullptr;
    // Offset of the remote data region in the pool.
    std::uint64_t data_begin = 0;
    replica::method method = method::messages;
    // The target's device supports the native operations of the local device.
    bool native_operations = true;
    std::uint32_t window = 1;
    std::uint32_t depth = 2;
    int timeout_ms = 0;
    loss lost;
};

// Data connection. Posted operations are executed in order. Functions return 0 or an errno value, which is also the
// reason of the declared loss. The caller must check the ranges. Used by one thread at a time.
class region_lane
{
public:
    // Registers the memory of the lane and posts the connection request. connected() waits for the outcome.
    int connect(data_path &path, const char *address, const char *port, std::span<const std::byte> proof);
    int connected(const deadline &until);
    // Returns whether the local device flushes natively. Valid after connect().
    bool flushes_natively() const;
    ~region_lane();
    region_lane() = default;
    region_lane(const region_lane &) = delete;
    region_lane &operator=(const region_lane &) = delete;

    // Starts to copy a range. drain() waits until all started ranges are durable; a deep flush also reaches the medium.
    int flush(range r);
    int drain(lane_request_kind kind = lane_request_kind::flush);
    // Like flush(), but does not write: the range is already at the target.
    int include(range r);
    // Like flush(), for 8 bytes at an 8-byte aligned offset, which are written atomically. The local memory must
    // contain them, too.
    int flush_word(std::uint64_t offset, const char bytes[8]);
    int read(void *to, range r);
    // Copies from memory outside of the region, and waits until the copy is durable.
    int write(const void *from, range r);
    // Reads a range into the same offset of the local memory. Requires terms::fetches.
    int fetch(range r);

    // First half of drain(): submits the request. Waits only for send queue entries.
    int begin_drain(lane_request_kind kind);
    // Posts the request that makes the pending ranges durable, together with batched writes. ticket() then identifies
    // the request for wait().
    int submit(lane_request_kind kind);
    std::uint64_t ticket() const { return submitted_; }
    // Waits until all requests up to the ticket are complete. Returns ETIMEDOUT, without declaring a loss, if no
    // progress was made before `until`, or later within the timeout of the region.
    int wait(std::uint64_t ticket, deadline until);
    // Collects completions without waiting. Sets *progress to whether there were any. One of the descriptors then
    // becomes readable at the next completion or at the end of the connection.
    int poll_completions(bool *progress);
    bool is_complete(std::uint64_t ticket) const { return finished_ >= ticket; }
    int completion_fd() const { return cq_fd_; }
    int connection_fd() const { return event_fd_; }

private:
    // Kind of the completed operation, in the lowest bits of the completion's context. The other bits are the number of
    // operations that are complete.
    static constexpr unsigned kind_bits = 2;
    enum class posted : std::uintptr_t {
        transfer,
        request,
        answer,
    };

    int make_memory();
    int post_write(range chunk, const rpma_mr_local *from, std::size_t from_offset);
    int post_chunks(range r, const rpma_mr_local *from, std::size_t from_offset);
    int reserve_entry();
    void add_pending_range(range r);
    int submit_message(lane_request_kind kind);
    int submit_flush();
    int read_chunks(rpma_mr_local *to, std::size_t to_offset, range r);
    int read_chunk(rpma_mr_local *to, std::size_t to_offset, range chunk);
    int read_through_memory(std::byte *to, range r);

    // Returns a context with the kind and the number of operations that complete with it.
    const void *context(posted kind);
    int reserve();
    int fail_lane(int error);
    int fail_lane_rpma(int error);

    // Waits until fewer than `requests` requests and fewer than `operations` operations are outstanding. Declares the
    // loss after the timeout.
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

    // Ranges that are written but not yet part of a request.
    lane_request pending_;
    std::uint64_t sequence_ = 0;
    std::uint64_t answered_ = 0;
    // Numbers of submitted and of finished requests, and of operations that can still occupy the send queue.
    std::uint64_t submitted_ = 0;
    std::uint64_t finished_ = 0;
    std::uint32_t operations_ = 0;
    // Operations posted since the last signaled one.
    std::uint32_t unsignaled_ = 0;
    std::uint32_t next_receive_ = 0;
};

} // namespace replica

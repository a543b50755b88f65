// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "message/lane_proof.hpp"
#include "region/lane_connection.hpp"

namespace replica
{

// Data connection. Posted operations are executed in order. The caller must check the ranges.
class region_lane : public lane_connection
{
public:
    // Starts to copy a range. drain() waits until all started ranges are durable; a deep flush also reaches the medium.
    int flush(range r);
    int drain(lane_request_kind kind = lane_request_kind::flush);
    // Like flush(), but does not write: the range is already at the target.
    int include(range r);
    // Like flush(), for 8 aligned bytes, written atomically. The local memory must contain them, too.
    int flush_word(std::uint64_t offset, const char bytes[8]);
    int read(void *to, range r);
    // Copies from memory outside of the region, and waits until the copy is durable.
    int write(const void *from, range r);
    // Reads a range into the same offset of the local memory. Requires settings::fetches.
    int fetch(range r);

    // First half of drain(). Waits only for send queue entries.
    int begin_drain(lane_request_kind kind);
    // Posts the request that makes the pending ranges durable. ticket() then identifies it.
    int submit(lane_request_kind kind);

private:
    int reserve();
    int post_write(range chunk, const rpma_mr_local *from, std::size_t from_offset);
    int post_chunks(range r, const rpma_mr_local *from, std::size_t from_offset);
    int reserve_entry();
    void add_pending_range(range r);
    int submit_message(lane_request_kind kind);
    int submit_flush();
    int read_chunks(rpma_mr_local *to, std::size_t to_offset, range r);
    int read_chunk(rpma_mr_local *to, std::size_t to_offset, range chunk);
    int read_through_memory(std::byte *to, range r);

    lane_request pending_; // ranges that are written but not yet part of a request
};

} // namespace replica

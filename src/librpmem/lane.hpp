// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>

#include "clock.hpp"
#include "control.hpp"
#include "heap.hpp"
#include "lane_message.hpp"
#include "lane_proof.hpp"
#include "loss.hpp"

namespace rpmem
{

// What the lanes of a pool share.
struct data_path {
    rpma_peer *peer = nullptr;
    rpma_mr_local *region = nullptr;
    rpma_mr_remote *data = nullptr;
    rpma_mr_remote *header = nullptr;
    rpma_peer_cfg *peer_cfg = nullptr;
    // Where the remote region of the data begins in the pool.
    std::uint64_t data_begin = 0;
    replica::method method = replica::method::messages;
    std::uint32_t window = 1;
    std::uint32_t depth = 2;
    int timeout_ms = 0;
    loss lost;
};

// One data connection. What it posts is executed in order. Functions return 0 or an errno, which then is the reason of
// the declared loss, too; ranges are checked by the caller.
class lane
{
public:
    // The lane's memory and its request to connect; connected() waits for the outcome.
    int connect(data_path &path, const char *address, const char *port, const replica::lane_proof &proof);
    int connected(const replica::deadline &until);
    ~lane();
    lane() = default;
    lane(const lane &) = delete;
    lane &operator=(const lane &) = delete;

    // Starts to copy a range. drain() waits until all of them are durable, as deeply as kind says.
    int flush(replica::range r);
    int drain(replica::lane_request_kind kind = replica::lane_request_kind::flush);
    int read(void *to, replica::range r);

private:
    enum class posted : std::uintptr_t {
        transfer,
        request,
        answer,
    };

    int make_memory();
    int post_write(replica::range piece);
    void note(replica::range r);
    int submit(replica::lane_request_kind kind);
    int submit_message(replica::lane_request_kind kind);
    int submit_flush();
    int read_piece(rpma_mr_local *to, std::size_t to_offset, replica::range piece);
    int read_through_memory(std::byte *to, replica::range r);

    // Counts the operation, and makes its completion say how many are complete with it.
    const void *context(posted kind);
    int reserve();
    int lose(int error);
    int lose_rpma(int error);

    // Waits until fewer than that many requests, and operations, are under way.
    int wait_below(std::uint32_t requests, std::uint32_t operations);
    int sleep(const replica::deadline &until);
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
    replica::lane_request pending_;
    std::uint64_t sequence_ = 0;
    std::uint64_t answered_ = 0;
    // Requests without answer, and operations that may still occupy the send queue.
    std::uint32_t requests_ = 0;
    std::uint32_t operations_ = 0;
    // Of these, posted since the last one whose completion is reported.
    std::uint32_t unreported_ = 0;
    std::uint32_t next_receive_ = 0;
};

} // namespace rpmem

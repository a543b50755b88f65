// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <sys/epoll.h>

#include "device.hpp"
#include "lane_message.hpp"
#include "pool_memory.hpp"

namespace rpmemd
{

// Requests that a lane may have under way; twice as many answers may be, for their completions come later.
constexpr std::uint32_t lane_window = 8;
constexpr std::uint32_t lane_answers = 2 * lane_window;
constexpr std::size_t lane_memory_size =
        lane_window * replica::longest_lane_request + lane_answers * replica::lane_answer_size;

// What the lanes of a session share. Clients write to [begin, end) of the pool.
struct lane_context {
    const pool_memory *memory = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::byte *messages = nullptr; // lane_memory_size for each lane
    rpma_mr_local *region = nullptr;
};

connection_cfg_ptr lane_configuration();

// One data connection: requests to flush arrive, answers go. Used by one thread at a time.
class lane
{
public:
    // Accepts the request. Throws failure.
    lane(const lane_context &shared, std::uint32_t number, request_ptr request);

    // Both become readable for serve().
    int completion_fd() const;
    int event_fd() const;

    // Does what there is to do, without waiting. False: the lane is over, because of the client or of what it sent.
    bool serve();
    void close() { connection_.reset(); }

private:
    bool take_event();
    bool take_completions();
    bool answer(std::size_t slot, std::size_t length);
    int flush(const replica::lane_request &request) const;
    bool post_receive(std::size_t slot);
    std::size_t request_offset(std::size_t slot) const;
    std::size_t answer_offset() const;

    const lane_context &shared_;
    const std::size_t start_; // of the lane's messages
    connection_ptr connection_;
    rpma_cq *queue_ = nullptr;
    bool established_ = false;
    std::uint64_t sequence_ = 0;
    std::uint32_t answers_under_way_ = 0;
};

} // namespace rpmemd

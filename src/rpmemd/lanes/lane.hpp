// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <sys/epoll.h>

#include "lanes/device.hpp"
#include "lanes/metrics.hpp"
#include "message/lane_message.hpp"
#include "store/pool_memory.hpp"

namespace rpmemd
{

// Maximum number of outstanding requests of a lane. Completions of responses arrive later, so there are twice as many.
constexpr std::uint32_t lane_window = 8;
constexpr std::uint32_t lane_responses = 2 * lane_window;
constexpr std::size_t lane_memory_size =
        lane_window * replica::max_lane_request_size + lane_responses * replica::lane_response_size;

// State shared by the lanes of a session. Clients write to the range [begin, end) of the pool.
struct lane_context {
    const pool_memory *memory = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::byte *messages = nullptr; // lane_memory_size for each lane
    rpma_mr_local *region = nullptr;
    set_metrics *counted = nullptr; // NULL for a pool
};

connection_cfg_ptr lane_configuration();

// Data connection: receives flush requests and sends responses. Used by one thread at a time.
class lane
{
public:
    lane(const lane_context &shared, std::uint32_t number, request_ptr request);

    // Descriptors that become readable when serve() has work to do.
    int completion_fd() const;
    int event_fd() const;

    // Processes pending events without blocking. Returns false if the client disconnected or its request is invalid.
    bool serve();
    void close() { connection_.reset(); }

private:
    bool take_event();
    bool take_completions();
    bool respond(std::size_t slot, std::size_t length);
    int flush(const replica::lane_request &request) const;
    int flush_and_count(const replica::lane_request &request) const;
    bool post_receive(std::size_t slot);
    std::size_t request_offset(std::size_t slot) const;
    std::size_t response_offset() const;

    const lane_context &shared_;
    const std::size_t start_; // offset of the lane's messages
    connection_ptr connection_;
    rpma_cq *queue_ = nullptr;
    bool established_ = false;
    std::uint64_t sequence_ = 0;
    std::uint32_t responses_in_flight_ = 0;
};

} // namespace rpmemd

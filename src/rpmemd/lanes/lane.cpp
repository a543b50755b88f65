// SPDX-License-Identifier: BSD-3-Clause
#include "lanes/lane.hpp"

#include <chrono>
#include <poll.h>

#include "config/log.hpp"

namespace rpmemd
{

namespace
{

// Context of a response. The context of a receive is the number of its slot.
constexpr std::uint64_t response_context = lane_window;

const void *context_of(std::uint64_t number)
{
    return reinterpret_cast<const void *>(number);
}

bool is_readable(int fd)
{
    pollfd polled{fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
}

} // namespace

connection_cfg_ptr lane_configuration()
{
    rpma_conn_cfg *created = nullptr;
    check_rpma(rpma_conn_cfg_new(&created), "cannot configure a lane");
    connection_cfg_ptr configuration(created);
    check_rpma(rpma_conn_cfg_set_cq_size(created, lane_window + lane_responses), "cannot configure a lane");
    check_rpma(rpma_conn_cfg_set_rq_size(created, lane_window), "cannot configure a lane");
    check_rpma(rpma_conn_cfg_set_sq_size(created, lane_responses), "cannot configure a lane");
    return configuration;
}

lane::lane(const lane_context &shared, std::uint32_t number, request_ptr request)
    : shared_(shared), start_(number * lane_memory_size)
{
    for (std::size_t slot = 0; slot < lane_window; ++slot)
        check_rpma(rpma_conn_req_recv(request.get(), shared_.region, request_offset(slot),
                           replica::max_lane_request_size, context_of(slot)),
                "cannot post receives for a lane");
    rpma_conn_req *taken = request.release();
    rpma_conn *connection = nullptr;
    check_rpma(rpma_conn_req_connect(&taken, nullptr, &connection), "cannot accept a lane");
    connection_.reset(connection);
    check_rpma(rpma_conn_get_cq(connection, &queue_), "cannot use a lane");
}

int lane::completion_fd() const
{
    int fd = -1;
    check_rpma(rpma_cq_get_fd(queue_, &fd), "cannot wait for a lane");
    return fd;
}

int lane::event_fd() const
{
    int fd = -1;
    check_rpma(rpma_conn_get_event_fd(connection_.get(), &fd), "cannot wait for a lane");
    return fd;
}

std::size_t lane::request_offset(std::size_t slot) const
{
    return start_ + slot * replica::max_lane_request_size;
}

std::size_t lane::response_offset() const
{
    return start_ + lane_window * replica::max_lane_request_size +
           sequence_ % lane_responses * replica::lane_response_size;
}

bool lane::serve()
{
    if (is_readable(event_fd()) && !take_event())
        return false;
    return !established_ || take_completions();
}

bool lane::take_event()
{
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    if (rpma_conn_next_event(connection_.get(), &event) != 0 || event != RPMA_CONN_ESTABLISHED)
        return false;
    established_ = true;
    return true;
}

bool lane::take_completions()
{
    if (is_readable(completion_fd()) && rpma_cq_wait(queue_) != 0)
        return false;
    for (;;) {
        ibv_wc done{};
        const int result = rpma_cq_get_wc(queue_, 1, &done, nullptr);
        if (result == RPMA_E_NO_COMPLETION)
            return true;
        if (result != 0 || done.status != IBV_WC_SUCCESS)
            return false;
        if (done.wr_id == response_context)
            --responses_in_flight_;
        else if (!respond(done.wr_id, done.byte_len))
            return false;
    }
}

bool lane::respond(std::size_t slot, std::size_t length)
{
    replica::lane_request request;
    const std::span<const std::byte> bytes(
            shared_.messages + request_offset(slot), std::min(length, replica::max_lane_request_size));
    if (!replica::decode(bytes, request) || request.sequence != sequence_ + 1) {
        log(log_level::err, "lane: malformed request: lane closed");
        return false;
    }
    for (std::uint32_t i = 0; i < request.count; ++i)
        if (!replica::range_fits(request.ranges[i], shared_.begin, shared_.end)) {
            log(log_level::err, "lane: range outside the pool: lane closed");
            return false;
        }
    sequence_ = request.sequence;
    // Posts the receive first: the client sends its next request as soon as the response arrives.
    if (responses_in_flight_ == lane_responses || !post_receive(slot))
        return false;
    const int error = shared_.counted == nullptr ? flush(request) : flush_and_count(request);
    if (error != 0)
        log(log_level::err, std::string("cannot flush the data of a client: ") + std::strerror(error));
    replica::encode(
            replica::lane_response{request.kind, error, request.sequence}, shared_.messages + response_offset());
    ++responses_in_flight_;
    return rpma_send(connection_.get(), shared_.region, response_offset(), replica::lane_response_size,
                   RPMA_F_COMPLETION_ALWAYS, context_of(response_context)) == 0;
}

int lane::flush(const replica::lane_request &request) const
{
    for (std::uint32_t i = 0; i < request.count; ++i) {
        const auto [offset, length] = request.ranges[i];
        const int error = request.kind == replica::lane_request_kind::deep_flush
                                  ? shared_.memory->deep_persist(offset, length)
                                  : shared_.memory->persist(offset, length);
        if (error != 0)
            return error;
    }
    return 0;
}

int lane::flush_and_count(const replica::lane_request &request) const
{
    using clock = std::chrono::steady_clock;
    const clock::time_point start = clock::now();
    const int error = flush(request);
    const auto duration = std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start);
    set_metrics &counted = *shared_.counted;
    counted.flush_time.add(static_cast<std::uint64_t>(duration.count()));
    counted.flush_errors += error != 0 ? 1U : 0U;
    for (std::uint32_t i = 0; i < request.count; ++i)
        counted.flushed_bytes += request.ranges[i].length;
    return error;
}

bool lane::post_receive(std::size_t slot)
{
    return rpma_recv(connection_.get(), shared_.region, request_offset(slot), replica::max_lane_request_size,
                   context_of(slot)) == 0;
}

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/loss.hpp"
#include "message/control.hpp"
#include "message/lane_message.hpp"

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

    // Declare the loss of the target. Return the errno value of the first loss.
    int fail(int error)
    {
        lost.declare(error);
        return lost.error();
    }
    int fail_rpma(int error)
    {
        return fail(error == RPMA_E_NOMEM ? ENOMEM : error == RPMA_E_PROVIDER ? ECONNRESET : EPROTO);
    }
};

// Returns the error of a failed call of librpma if this process lacks resources, otherwise `other`.
int shortage_or(int other, int result);

// Registered memory of a lane: a ring of requests, a ring of responses, and a buffer for reads.
class lane_memory
{
public:
    static constexpr std::size_t bounce_size = 16 * 1024;

    ~lane_memory() { rpma_mr_dereg(&registered_); }

    int allocate(rpma_peer *peer, std::uint32_t window);

    rpma_mr_local *registered() const { return registered_; }
    std::byte *at(std::size_t offset) const { return memory_.get() + offset; }
    std::size_t request_at(std::uint64_t sequence) const { return sequence % window_ * max_lane_request_size; }
    std::size_t response_at(std::uint32_t slot) const
    {
        return window_ * max_lane_request_size + slot * lane_response_size;
    }
    std::size_t bounce_at() const { return response_at(window_); }

private:
    struct freer {
        void operator()(std::byte *memory) const { std::free(memory); }
    };

    std::uint32_t window_ = 1;
    std::unique_ptr<std::byte, freer> memory_;
    rpma_mr_local *registered_ = nullptr;
};

// Connection of a lane, and the number of its operations and requests that are outstanding. Functions return 0 or an
// errno value, which is also the reason of the declared loss. Used by one thread at a time.
class lane_connection
{
public:
    // Registers the memory of the lane and posts the connection request. connected() waits for the outcome.
    int connect(data_path &path, const char *address, const char *port, std::span<const std::byte> proof);
    int connected(const deadline &until);
    // Returns whether the local device flushes natively. Valid after connect().
    bool flushes_natively() const;
    ~lane_connection();

    // Identifies the last submitted request for wait().
    std::uint64_t ticket() const { return submitted_; }
    // Waits until all requests up to the ticket are complete. Returns ETIMEDOUT, without declaring a loss, at `until`.
    // With `extends`, progress before extends the wait by the timeout of the region.
    int wait(std::uint64_t ticket, const deadline &until, bool extends = true)
    {
        return wait_until(ticket, ~0U, until, extends);
    }
    // Collects completions without waiting. Sets *progress to whether there were any. One of the descriptors then
    // becomes readable at the next completion or at the end of the connection.
    int poll_completions(bool *progress);
    bool is_complete(std::uint64_t ticket) const { return finished_ >= ticket; }
    // Returns whether the operations and a request can be posted without waiting. Collects completions if necessary.
    bool has_capacity(std::uint32_t operations);
    std::array<int, 2> fds() const { return {cq_fd_, event_fd_}; } // completions, connection

protected:
    // Kind of the operation, in the lowest bits of the completion's context; the others are the number of operations.
    static constexpr unsigned kind_bits = 2;
    enum class posted : std::uintptr_t {
        transfer,
        request,
        response,
    };

    data_path &path() const { return *path_; }
    rpma_conn *conn() const { return conn_; }
    const lane_memory &memory() const { return memory_; }

    // Count an operation, which completes all unsignaled ones if it is signaled. Return its context.
    const void *count_operation(posted kind, bool signaled);
    const void *count_request(posted kind);
    std::uint64_t next_sequence() { return ++sequence_; }
    bool has_space_for(std::uint32_t operations) const { return operations_ + operations <= path_->depth; }
    bool is_unsignaled() const { return operations_ == unsignaled_; }
    // Waits until fewer requests and operations are outstanding. Declares the loss after the timeout.
    int wait_below(std::uint64_t requests, std::uint32_t operations);
    int wait_for_completion() { return wait_below(~0U, operations_); }

private:
    // Without `until`, the timeout of the region starts when the lane first sleeps: short waits read no clock.
    int wait_until(std::uint64_t finished, std::uint32_t operations, std::optional<deadline> until, bool extends);
    int sleep(const deadline &until);
    int collect(bool *progress);
    int complete(const ibv_wc &wc);
    int on_response(std::uint32_t length);

    data_path *path_ = nullptr;
    lane_memory memory_;
    rpma_conn *conn_ = nullptr;
    rpma_cq *cq_ = nullptr;
    int cq_fd_ = -1;
    int event_fd_ = -1;

    // Sequence numbers of the last request by message, and of the last response.
    std::uint64_t sequence_ = 0;
    std::uint64_t last_response_ = 0;
    // Numbers of submitted and finished requests, and of operations that can still occupy the send queue.
    std::uint64_t submitted_ = 0;
    std::uint64_t finished_ = 0;
    std::uint32_t operations_ = 0;
    // Operations posted since the last signaled one.
    std::uint32_t unsignaled_ = 0;
    std::uint32_t next_receive_ = 0;
};

} // namespace replica

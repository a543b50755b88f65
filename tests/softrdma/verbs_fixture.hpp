// SPDX-License-Identifier: BSD-3-Clause
// A device of the objects of verbs and the transport inside one process: no socket, no thread, no shared memory.
#pragma once

#include "transport/loopback/loopback.hpp"
#include "verbs/completion_channel.hpp"
#include "verbs/number_table.hpp"

#include <csetjmp>
#include <fcntl.h>
#include <cstdarg>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

extern "C" {
#include <cmocka.h>
}

// Deferred calls wait until the test runs them.
class deferred_calls final : public softrdma::progress
{
public:
    using progress::defer;
    bool poll() override { return run(); }
    void about_to_wait() override {}
    void defer(softrdma::reserve::call call, std::chrono::microseconds) override { calls_.push_back(std::move(call)); }
    // False if there was nothing.
    bool run();

private:
    std::deque<softrdma::reserve::call> calls_;
};

struct verbs_device {
    deferred_calls later;
    softrdma::private_memory memory;
    softrdma::device_context opened;
    softrdma::protection_domain pd;

    explicit verbs_device(softrdma::transport_maker &transports = softrdma::loopback::maker());
    ibv_context *context() noexcept { return &opened.verbs.context; }
    // The next asynchronous event, acknowledged; -1: there is none.
    int next_event();
};

// Two queue pairs that are connected, and memory on both sides. Each has a completion queue for both directions.
struct connected_pair {
    static constexpr std::uint32_t size = 4096;
    static constexpr unsigned all_access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct options {
        int cqe = 16;
        std::uint32_t max_send_wr = 4;
        std::uint8_t rnr_retry = 7;
        unsigned peer_access = all_access; // access to the peer's region
        unsigned peer_grants = all_access; // access that its queue pair grants
        ibv_srq *srq = nullptr;            // the peer's
        softrdma::completion_channel *events = nullptr;
        softrdma::ring_start start{}; // initial counters of both sides
    };
    explicit connected_pair(verbs_device &device);
    connected_pair(verbs_device &device, const options &o);
    ~connected_pair();

    struct side {
        std::unique_ptr<softrdma::completion_queue> cq;
        std::shared_ptr<softrdma::queue_pair> qp;
        alignas(8) std::array<std::byte, size> memory{};
        ibv_mr *mr = nullptr;

        ibv_sge sge(std::uint32_t offset, std::uint32_t length) const;
        // Errors as the functions of verbs return them.
        int send(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge list, const side &to,
                unsigned flags = IBV_SEND_SIGNALED);
        int post_receive(std::uint64_t wr_id, std::uint32_t offset, std::uint32_t length);
        // The next completion.
        std::optional<ibv_wc> poll();
    };
    verbs_device &device;
    side a; // asks
    side b; // answers
};

void make_ready_to_send(softrdma::queue_pair &qp, unsigned grants, std::uint8_t rnr_retry);
void assert_completion(const std::optional<ibv_wc> &wc, std::uint64_t wr_id, ibv_wc_status status);
void assert_nothing(connected_pair::side &s);
// The part of the completion queue that peers write in memory.
softrdma::cq_block &words_of(connected_pair::side &s);
// Fills the next receive as a peer does in memory, without the announcement.
void deliver(softrdma::receive_queue &ring);

// SPDX-License-Identifier: BSD-3-Clause
// A device with all verbs objects and their transport inside one process, without sockets, threads or shared memory.
#pragma once

#include "transport/rc/rc_transport.hpp"
#include "transport/shared_memory.hpp"
#include "verbs/completion_channel.hpp"
#include "verbs/number_table.hpp"

#include <fcntl.h>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "cmocka_headers.hpp"

// Queues deferred calls until the test runs them.
class deferred_calls final : public softrdma::progress
{
public:
    using progress::defer;
    bool poll() override { return run(); }
    void about_to_wait() override {}
    void defer(softrdma::reserve::prepared_call call, std::chrono::microseconds) noexcept override
    {
        calls_.insert(std::move(call.entry));
    }
    // Returns false if no call was pending.
    bool run();

private:
    softrdma::reserve::call_queue calls_; // in the order of the calls of defer()
};

// Memory that is not shared with another process.
class private_memory final : public softrdma::shared_memory
{
public:
    std::shared_ptr<softrdma::block> allocate(std::size_t size) override;
    std::uint64_t next_serial() noexcept override { return serial_.fetch_add(1) + 1; }
    void publish(const softrdma::published_region &) noexcept override {}
    void withdraw(std::uint32_t) noexcept override {}
    bool has_unsynced(std::uint32_t) const noexcept override { return false; }
    std::atomic<std::uint32_t> &uses_flush() noexcept override { return uses_flush_; }

private:
    std::atomic<std::uint64_t> serial_{0};
    std::atomic<std::uint32_t> uses_flush_{0};
};

struct verbs_device {
    deferred_calls later;
    private_memory memory;
    softrdma::device_context opened;
    softrdma::protection_domain pd;

    verbs_device();
    ibv_context *context() noexcept { return &opened.verbs.context; }
    // Returns the next asynchronous event and acknowledges it; -1 if none is pending.
    int next_event();
};

// Path that drops all packets.
class idle_path : public softrdma::packet_path
{
public:
    void transmit(const softrdma::packet &, std::span<const iovec>, bool) override {}
    void push() override {}
    bool congested() override { return false; }
    std::size_t send_space() override { return SIZE_MAX; }
    void start_timer(std::chrono::microseconds) override {}
    void start_response_timer(std::chrono::microseconds) override {}
    const char *name() const noexcept override { return "none"; }
    void ends(sockaddr_storage &, sockaddr_storage &) const override {}
    void cut() noexcept override {}
};

// Path that keeps packets until the other end receives them.
class frame_path : public idle_path
{
public:
    void transmit(const softrdma::packet &header, std::span<const iovec> payload, bool more) override;
    // Removes the first packet that has arrived. Returns false if there is none.
    bool take(std::vector<std::byte> &frame);

    frame_path *peer = nullptr;

protected:
    std::mutex mutex_;
    std::deque<std::vector<std::byte>> inbox_;
};

// Two connected queue pairs with a memory region each. Each side has one completion queue.
struct connected_pair {
    static constexpr std::uint32_t size = 4096;
    static constexpr unsigned all_access =
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct options {
        int cqe = 16;
        std::uint32_t max_send_wr = 4;
        std::uint8_t rnr_retry = 7;
        unsigned peer_access = all_access; // access flags of the peer's region
        unsigned peer_grants = all_access; // access flags of the peer's queue pair
        ibv_srq *srq = nullptr;            // shared receive queue of the peer
        softrdma::completion_channel *events = nullptr;
        softrdma::ring_start start{}; // initial ring counters of both sides
    };
    explicit connected_pair(verbs_device &device);
    connected_pair(verbs_device &device, const options &o);
    ~connected_pair();

    struct side {
        connected_pair *pair = nullptr;
        std::unique_ptr<softrdma::completion_queue> cq;
        std::shared_ptr<softrdma::queue_pair> qp;
        std::shared_ptr<frame_path> path = std::make_shared<frame_path>();
        alignas(8) std::array<std::byte, size> memory{};
        ibv_mr *mr = nullptr;

        ibv_sge sge(std::uint32_t offset, std::uint32_t length) const;
        // Returns 0 or an errno value, as verbs do.
        int send(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge list, const side &to,
                unsigned flags = IBV_SEND_SIGNALED);
        int post_receive(std::uint64_t wr_id, std::uint32_t offset, std::uint32_t length);
        // Returns the next completion.
        std::optional<ibv_wc> poll();
    };
    // Delivers all packets.
    void deliver();

    std::mutex delivery;
    verbs_device &device;
    side a; // requester
    side b; // responder
};

// Fixture of tests.
struct device_with_pair {
    verbs_device device;
    connected_pair p{device};
};

// Attributes of a connected queue pair with one element per request.
ibv_qp_init_attr rc_attributes(softrdma::completion_queue &cq, std::uint32_t depth);
// Moves a queue pair from RESET to RTR, or to RTS. Returns false if a change is rejected.
bool enter_rtr(softrdma::queue_pair &qp, ibv_qp_attr attr);
bool enter_rts(softrdma::queue_pair &qp, ibv_qp_attr attr);
void make_ready_to_send(softrdma::queue_pair &qp, unsigned grants, std::uint8_t rnr_retry);
// Posts a receive of one element. The queue is that of a queue pair or a shared one. Returns 0 or an errno value.
int post_one(softrdma::queue_pair &qp, std::uint64_t wr_id, ibv_sge list);
int post_one(softrdma::shared_receive_queue &srq, std::uint64_t wr_id, ibv_sge list);
void assert_completion(const std::optional<ibv_wc> &wc, std::uint64_t wr_id, ibv_wc_status status);
void assert_nothing(connected_pair::side &s);
// Returns the part of the completion queue that peers write in memory.
softrdma::cq_block &words_of(connected_pair::side &s);
// Fills the next receive as a peer does in shared memory, without announcing it.
void deliver(softrdma::receive_queue &ring);

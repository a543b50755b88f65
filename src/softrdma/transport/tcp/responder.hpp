// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/receive_ring.hpp"
#include "verbs/remote_access.hpp"

#include <vector>

namespace softrdma
{

// The answering half of a queue pair: its receive queue, the peer's requests and the replies to them.
// Guarded by the queue pair's lock, except execute(), which only the thread that reads the path calls.
class responder
{
public:
    responder(endpoint &ep, receive_ring &ring, const ibv_qp &qp) : ep_(ep), ring_(ring), memory_(qp) {}

    void start(std::uint32_t psn) noexcept
    {
        expected_psn_ = psn & psn_mask;
        rejects_ = owes_acknowledgement_ = false;
    }
    // A receive was posted: lets a sender that was told to wait go on at once.
    void announce_receive()
    {
        if (announces_ || receiver_not_ready_ || ring_.shared().peer_waiting.load(std::memory_order_acquire) != 0)
            announce_to_waiting();
    }

    enum class admission {
        execute,
        ignore,
        violation,
    };
    admission admit(const packet &p, const std::weak_ptr<queue_pair> &self);
    // Touches memory only: places a WRITE segment or a word, operates on a word, makes durable what a FLUSH names
    // or a READ follows, checks a READ.
    // Returns the syndrome of the answer.
    std::uint8_t execute(const packet &p);
    outcome finish(const packet &p, std::uint8_t answer);
    void acknowledge_executed() { acknowledge((expected_psn_ - 1) & psn_mask); }
    // Rejects the first request that has no response, once. A request behind a rejected one gets no response, because a
    // response acknowledges all earlier requests.
    void reject_rest();
    // Where the next bytes of a message go that is arriving; false if that is not certain.
    bool find_place(const packet &begun, std::size_t bytes, gathered &place);

    // Sends the replies that are due, then lets the program see what they acknowledge: a program that
    // exits as soon as it sees a message must not leave its sender without an acknowledgement.
    outcome release();
    // Before the queue pair stops answering: acknowledges all that was executed. A READ that is still being answered is
    // broken off and rejected.
    void abandon();
    void flush();
    void drop_message();
    // Requests of the peer that this side has carried out.
    std::uint64_t executed_count() const noexcept { return executed_; }
    void reset();

private:
    enum class reply_kind {
        acknowledgement,
        read,
        empty_read, // of FLUSH and ATOMIC WRITE
        atomic,
    };
    struct reply {
        std::uint32_t psn = 0;
        std::uint8_t syndrome = 0;
        reply_kind kind = reply_kind::acknowledgement;
        std::uint64_t original = 0; // what an atomic operation found
        std::uint64_t addr = 0;
        std::uint32_t rkey = 0;
        std::uint32_t length = 0;
        std::uint32_t sent = 0;

        bool is_success() const noexcept { return kind == reply_kind::acknowledgement && syndrome == syndrome::ack; }
    };
    struct completion {
        ibv_wc wc;
        bool solicited;
    };

    void announce_to_waiting();
    void tell_receive_posted();
    bool take_receive(const std::weak_ptr<queue_pair> &self, std::uint32_t psn);
    void complete_receive(const packet &p, ibv_wc_status status);
    void receive_is_completed() noexcept;
    std::span<const ibv_sge> receive_elements() const noexcept
    {
        return {current_->sges.data(), static_cast<std::size_t>(current_->sge_count)};
    }
    // The domain in which the keys of receives are looked up: a shared receive queue has its own.
    ibv_pd *receive_domain() const noexcept { return ep_.qp->srq != nullptr ? ep_.qp->srq->pd : ep_.qp->pd; }
    std::uint8_t place_message(const packet &p);
    std::uint8_t place_write(const packet &p);
    void acknowledge(std::uint32_t psn);
    void answer_round_trip(const packet &p);
    bool send_reply(reply &r);
    bool send_read(reply &r);
    void send_replies();
    void push_completions();
    outcome refuse(const packet &p, std::uint8_t code);
    void report(std::uint8_t code);
    bool reject_read(const reply &r, std::uint8_t code);

    endpoint &ep_;
    receive_ring &ring_;
    std::optional<receive_request> current_; // taken for the message that is arriving
    std::uint32_t expected_psn_ = 0;
    std::uint64_t executed_ = 0;
    bool in_message_ = false;
    bool message_is_write_ = false;
    bool receiver_not_ready_ = false;
    bool rejects_ = false;              // a request was rejected: see reject_rest()
    bool owes_acknowledgement_ = false; // the latest request allowed a later one's to serve
    bool announces_ = false;            // reports that a receive was posted, once the replies have left
    std::uint32_t placed_ = 0;          // bytes of the arriving message
    std::uint64_t write_addr_ = 0;
    std::uint32_t write_rkey_ = 0;
    std::uint32_t write_length_ = 0;
    unsigned access_ = 0;
    std::uint64_t original_ = 0; // what the atomic operation being executed found
    int round_trips_queued_ = 0;
    std::deque<reply> replies_;
    std::vector<completion> completions_;
    remote_access memory_;
};

} // namespace softrdma

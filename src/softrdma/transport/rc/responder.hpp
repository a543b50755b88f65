// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/receive_queue.hpp"
#include "verbs/remote_access.hpp"

#include <vector>

namespace softrdma
{

// Responder of a queue pair: its receive queue, the requests of the peer and the responses to them. Guarded by the lock
// of the queue pair, except execute(), which only the thread that reads the path calls.
class responder
{
public:
    responder(endpoint &ep, receive_queue &receives, const ibv_qp &qp) : ep_(ep), receives_(receives), memory_(qp) {}

    void start(std::uint32_t psn) noexcept
    {
        SOFTRDMA_ASSERT(replies_.empty() && completions_.empty()); // nothing of an earlier connection is left
        expected_psn_ = psn & psn_mask;
        rejects_ = owes_acknowledgement_ = false;
    }
    void announce_receive()
    {
        if (announces_ || receiver_not_ready_ ||
                receives_.shared().receive_requested.load(std::memory_order_acquire) != 0)
            announce_to_waiting();
    }

    enum class admission {
        execute,
        ignore,
        violation,
    };
    admission admit(const packet &p, const std::weak_ptr<queue_pair> &self);
    // Accesses memory only: places a WRITE segment or a word, operates on a word, executes a FLUSH, or checks a READ
    // and makes the earlier writes durable. Returns the syndrome of the response.
    std::uint8_t execute(const packet &p);
    outcome finish(const packet &p, std::uint8_t code);
    outcome reject_invalid(const packet &p) { return reject(p, syndrome::invalid_request); }
    bool rejects() const noexcept { return rejects_; }
    void acknowledge_executed()
    {
        if (!rejects_)
            acknowledge((expected_psn_ - 1) & psn_mask);
    }
    // Rejects, once, the first request without a response. Requests behind it get none, which would acknowledge all.
    void reject_rest()
    {
        if (!std::exchange(rejects_, true))
            ep_.transmit({.op = opcode::acknowledge, .psn = expected_psn_, .syndrome = syndrome::unresponsive});
    }
    // Finds the destination of the next bytes of an arriving message. Returns false if it is uncertain.
    bool find_destination(const packet &partial, std::size_t bytes, gathered &destination)
    {
        return in_message_ && !message_is_write_ && partial.psn == expected_psn_ && current_ &&
               destination.collect(receive_domain(), receive_elements(), IBV_ACCESS_LOCAL_WRITE, placed_, bytes);
    }

    // Sends due responses, then completes what they acknowledge: a program may exit once it has polled a message.
    outcome release(); // `broken` after a rejection was sent, which follows the READ responses before it
    // Acknowledges executed requests before the queue pair stops responding. Aborts and rejects a READ response.
    void abandon();
    void flush();
    void drop_message();
    std::uint64_t executed_count() const noexcept { return executed_; }
    void reset();

private:
    enum class reply_kind {
        acknowledgement,
        read,
        empty_read, // response to FLUSH and ATOMIC WRITE
        atomic,
    };
    struct reply {
        std::uint32_t psn = 0;
        std::uint8_t syndrome = 0;
        reply_kind kind = reply_kind::acknowledgement;
        std::uint64_t original = 0; // old value of an atomic operation
        std::uint64_t addr = 0;
        std::uint32_t rkey = 0;
        std::uint32_t length = 0;
        std::uint32_t sent = 0;
        bool replay = false; // see packet::replay

        bool is_success() const noexcept { return kind == reply_kind::acknowledgement && syndrome == syndrome::ack; }
        bool is_rejection() const noexcept { return syndrome >= syndrome::sequence_error; }
    };
    struct completion {
        ibv_wc wc;
        bool solicited;
    };

    void announce_to_waiting();
    void send_receive_posted();
    bool take_receive(const std::weak_ptr<queue_pair> &self, std::uint32_t psn);
    void complete_receive(const packet &p, ibv_wc_status status);
    void receive_is_completed() noexcept;
    std::span<const ibv_sge> receive_elements() const noexcept
    {
        return {current_->sges.data(), static_cast<std::size_t>(current_->sge_count)};
    }
    // Domain in which the keys of receives are looked up: a shared receive queue has its own.
    ibv_pd *receive_domain() const noexcept { return ep_.qp->srq != nullptr ? ep_.qp->srq->pd : ep_.qp->pd; }
    std::uint8_t place_message(const packet &p);
    std::uint8_t place_write(const packet &p);
    void acknowledge(std::uint32_t psn);
    void respond_round_trip(const packet &p);
    bool send_reply(reply &r);
    bool send_read(reply &r);
    void send_replies();
    void push_completions();
    outcome reject(const packet &p, std::uint8_t code);
    void report(std::uint8_t code);
    bool reject_read(reply &r, std::uint8_t code);

    endpoint &ep_;
    receive_queue &receives_;
    std::optional<receive_request> current_; // taken for the message that is arriving
    std::uint32_t expected_psn_ = 0;
    std::uint64_t executed_ = 0;
    bool in_message_ = false;
    bool message_is_write_ = false;
    bool receiver_not_ready_ = false;
    bool rejects_ = false;              // a request was rejected: later ones are ignored, see reject_rest()
    bool owes_acknowledgement_ = false; // the acknowledgment of the latest request may be combined with a later one
    bool announces_ = false;            // sends receive_posted after the queued responses
    std::uint32_t placed_ = 0;          // bytes of the arriving message
    std::uint64_t write_addr_ = 0;
    std::uint32_t write_rkey_ = 0;
    std::uint32_t write_length_ = 0;
    unsigned access_ = 0;
    std::uint64_t original_ = 0; // old value of the atomic operation being executed
    int round_trips_queued_ = 0;
    std::deque<reply> replies_;
    std::vector<completion> completions_;
    remote_access memory_;
};

} // namespace softrdma

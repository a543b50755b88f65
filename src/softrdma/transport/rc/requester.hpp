// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "fault/rules.hpp"
#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/send_queue.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace softrdma
{

// Requester of a queue pair: executes the requests of its send queue. Guarded by the lock of the queue pair.
class alignas(cache_line) requester
{
public:
    requester(endpoint &ep, send_queue &queue) : queue_(queue), ep_(ep) {}

    void start(std::uint32_t psn) noexcept
    {
        SOFTRDMA_ASSERT(round_trips_ == 0 && next_ == 0); // no request of an earlier connection is in flight
        next_psn_ = psn & psn_mask;
    }
    outcome pump() // sends the requests that may be sent now
    {
        const outcome o = start_requests();
        ep_.push();
        return o;
    }
    bool awaits_memory() const noexcept { return awaits_memory_; }
    outcome tried_in_memory(post_result result);
    outcome receive_response(const packet &p)
    {
        if (watches_responses_) [[unlikely]]
            progress_at_ = std::chrono::steady_clock::now();
        return injection_ != nullptr && intercepted(p) ? outcome::proceed : handle_response(p);
    }
    // Finds the destination of the next bytes of a partly received response. Returns false if it is uncertain.
    bool find_destination(const packet &partial, std::size_t bytes, gathered &destination);
    outcome resume(); // the receiver has buffers again, or the RNR delay has expired
    outcome timed_out();
    outcome response_timer_expired();
    bool fail_first(ibv_wc_status status);
    void flush();
    bool reset(); // false if responses to discarded requests may still arrive
    bool busy() const noexcept { return !queue_.empty() && queue_.front().is_started(); }

private:
    // Executes a request that is not sent. Returns true if the next one may be started.
    bool execute_local(wqe &w, outcome &o);
    void show_executed(tap &t, const wqe &w);
    bool is_for_network(wqe &w) noexcept;
    void start_polling_network() noexcept
    {
        if (!std::exchange(polls_network_, true))
            cq_of(ep_.qp->send_cq).network_users.fetch_add(1);
    }
    void stop_polling_network() noexcept
    {
        if (std::exchange(polls_network_, false))
            cq_of(ep_.qp->send_cq).network_users.fetch_sub(1);
    }
    outcome stall(wqe &w);
    outcome local_timer_expired();
    outcome start_requests();
    void watch_responses();
    outcome transmit(wqe &w);
    packet round_trip_header(const wqe &w) const noexcept;
    outcome transmit_round_trip(wqe &w);
    outcome transmit_segment(wqe &w, std::uint32_t bytes);
    bool more_follow() const noexcept { return next_ + 1 < queue_.size(); }
    opcode segment_opcode(const wqe &w, std::uint32_t bytes) const noexcept;
    bool may_wait(const wqe &w) const noexcept;
    void request_acknowledgment();
    outcome local_error(wqe &w, ibv_wc_status status);
    void complete_first(ibv_wc_status status);
    bool complete_before(std::uint32_t psn);
    bool responds_to_first(const packet &p)
    {
        return complete_before(p.psn) && !queue_.empty() && next_ > 0 && queue_.front().psn == p.psn;
    }
    outcome complete_round_trip();
    bool place(std::uint32_t offset, std::span<const std::byte> data);
    outcome advance();
    outcome rejected(const packet &p);
    outcome peer_has_ended();
    void stop_waiting() noexcept;
    outcome receiver_not_ready(std::uint8_t timer);
    outcome receiver_never_ready();

    outcome handle_response(const packet &p);
    outcome acknowledged(const packet &p);
    outcome read_response(const packet &p);
    outcome atomic_response(const packet &p);

    // State of injected faults; NULL without any.
    struct deferred_packet {
        packet header;
        std::vector<std::byte> payload;
    };
    struct injection {
        bool held_back = false; // no request is started before the timer expires
        std::optional<std::uint32_t> lost_from;
        std::deque<deferred_packet> late;
        bool releasing = false;
    };
    bool injected(wqe &w, outcome &o);
    outcome reject_once(wqe &w);
    void delay_sending(std::chrono::microseconds delay)
    {
        injection_->held_back = true;
        ep_.path->start_timer(delay);
    }
    void drop_responses_from(std::uint32_t psn);
    bool intercepted(const packet &p);
    outcome release_injected();
    bool held_back() const noexcept { return injection_ != nullptr && injection_->held_back; }

    send_queue &queue_;
    endpoint &ep_;
    std::uint32_t next_ = 0; // first entry not yet handed to the path entirely
    std::uint32_t next_psn_ = 0;
    int round_trips_ = 0; // in flight
    int rnr_tries_ = 0;
    bool awaits_memory_ = false; // the first request must be tried in the memory of the peer
    bool waiting_for_receiver_ = false;
    bool peer_silent_ = false;       // the timer ends the wait for its responses
    bool peer_ended_ = false;        // the peer sends no more responses, so requests are neither sent nor completed
    bool responses_pending_ = false; // sent requests have failed locally: their responses may still arrive
    bool watches_responses_ = false; // the response timer is running
    std::chrono::steady_clock::time_point progress_at_{}; // time of the latest request or response
    std::unique_ptr<injection> injection_;
    bool polls_network_ = false;     // polls also check the network, because only it reaches some memory of the peer
    bool receive_requested_ = false; // the peer was asked to send a message when it posts a receive
    static constexpr auto never = std::chrono::steady_clock::time_point::max();
    std::chrono::steady_clock::time_point timer_at_ = never; // its expiry
    std::chrono::steady_clock::time_point retry_at_{};
};

} // namespace softrdma

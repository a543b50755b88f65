// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fault/rules.hpp"
#include "transport/transport.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/send_queue.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace softrdma
{

// The sending half of a queue pair: executes what is in its send queue. Guarded by the queue pair's lock.
class alignas(local::line) requester
{
public:
    requester(endpoint &ep, send_queue &queue) : queue_(queue), ep_(ep) {}

    void start(std::uint32_t psn) noexcept { next_psn_ = psn & psn_mask; }
    // Sends what may be sent now.
    outcome pump()
    {
        const outcome o = start_requests();
        ep_.push();
        return o;
    }
    // An answer of the peer to something that was sent.
    outcome answer(const packet &p)
    {
        if (watches_answers_) [[unlikely]]
            progress_at_ = std::chrono::steady_clock::now();
        return injection_ != nullptr && intercepted(p) ? outcome::proceed : handle_answer(p);
    }
    // Where the next bytes of an answer go of which something has come; false if that is not certain.
    bool find_place(const packet &begun, std::size_t bytes, gathered &place);
    // The receiver has buffers again, or the time to wait for them is over.
    outcome resume();
    // The path's timer has run out.
    outcome timed_out();
    outcome answer_timer_expired();
    bool fail_first(ibv_wc_status status);
    void flush();
    // False if responses to what is forgotten may still arrive.
    bool reset();
    // True while something that has been started is not complete.
    bool busy() const noexcept { return !queue_.empty() && (queue_.front().numbered || stalled_); }

private:
    post_result execute(const wqe &w);
    // Of a request that nothing is sent for: true if the next one may be started.
    bool carried_out_here(const wqe &w, outcome &o);
    void show_executed(tap &t, const wqe &w);
    bool executed_locally(wqe &w, outcome &o);
    bool follows_to_peer(wqe &w) noexcept;
    void start_polling_network() noexcept;
    void stop_polling_network() noexcept;
    outcome stall();
    outcome local_timer_expired();
    outcome start_requests();
    void watch_answers();
    outcome transmit(wqe &w);
    packet round_trip_header(const wqe &w) const noexcept;
    outcome transmit_round_trip(wqe &w);
    outcome transmit_segment(wqe &w, std::uint32_t bytes);
    // Whether the one that is being handed to the path is not the last.
    bool more_follow() const noexcept { return next_ + 1 < queue_.size(); }
    opcode segment_opcode(const wqe &w, std::uint32_t bytes) const noexcept;
    bool may_wait(const wqe &w) const noexcept;
    void ask_for_answers();
    outcome local_error(wqe &w, ibv_wc_status status);
    void complete_first(ibv_wc_status status);
    bool complete_before(std::uint32_t psn);
    bool answers_first(const packet &p);
    outcome complete_answered();
    outcome go_on();
    outcome rejected(const packet &p);
    outcome peer_has_ended();
    void stop_waiting() noexcept;
    outcome receiver_not_ready(std::uint8_t timer);

    outcome handle_answer(const packet &p);
    outcome acknowledged(const packet &p);
    outcome read_response(const packet &p);
    outcome atomic_response(const packet &p);

    // What injected faults need to remember; NULL without any.
    struct deferred_packet {
        packet header;
        std::vector<std::byte> payload;
    };
    struct injection {
        bool held_back = false; // nothing is started before the timer has run out
        std::optional<std::uint32_t> lost_from;
        std::deque<deferred_packet> late;
        bool releasing = false;
    };
    bool injected(wqe &w, outcome &o);
    outcome refuse_once(wqe &w);
    void delay_sending(std::chrono::microseconds delay);
    void lose_answers_from(std::uint32_t psn);
    bool intercepted(const packet &p);
    outcome release_injected();
    bool held_back() const noexcept { return injection_ != nullptr && injection_->held_back; }

    send_queue &queue_;
    endpoint &ep_;
    std::uint32_t next_ = 0; // first entry not yet handed to the path entirely
    std::uint32_t next_psn_ = 0;
    int round_trips_ = 0; // in flight
    int rnr_tries_ = 0;
    bool waiting_for_receiver_ = false;
    bool peer_silent_ = false;     // the timer ends the wait for its answers
    bool peer_ended_ = false;      // it answers nothing more, so nothing is sent or received
    bool unanswered_ = false;      // requests that were sent have failed here: their answers may still arrive
    bool watches_answers_ = false; // its timer runs
    std::chrono::steady_clock::time_point progress_at_{}; // when something was sent or answered last
    std::unique_ptr<injection> injection_;
    bool polls_network_ = false; // of memory that only it can reach: polling looks at the network meanwhile
    // A message that found no receive in the peer's ring.
    bool stalled_ = false;
    bool asking_ = false; // the peer was told to say when it posts one
    static constexpr auto never = std::chrono::steady_clock::time_point::max();
    std::chrono::steady_clock::time_point timer_at_ = never; // when it runs out
    std::chrono::steady_clock::time_point retry_at_{};
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fault/rules.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/request_kind.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

namespace softrdma
{

// The sending half of a queue pair: its send queue, in the order of posting. Guarded by the queue pair's lock.
class alignas(local::line) requester
{
public:
    requester(endpoint &ep, bool signal_all) : ep_(ep), signal_all_(signal_all) {}

    void start(std::uint32_t psn) noexcept { next_psn_ = psn & psn_mask; }
    // How many requests the queue has room for.
    std::size_t room() const noexcept
    {
        const std::size_t completed = completed_ - freed_.load(std::memory_order_relaxed);
        const std::size_t used = completed + (queue_.empty() ? 0 : queue_.size()); // which a deque does not keep
        return ep_.cap.max_send_wr - std::min<std::size_t>(used, ep_.cap.max_send_wr);
    }
    // Whether a request may be posted if there is room: 0, EINVAL or EOPNOTSUPP.
    int check(const ibv_send_wr &wr) const noexcept;
    // A request that may be posted, and how long its data is. Nothing is sent before pump(), but with an empty queue it
    // may be executed `at_once`, if that is not NULL: true if it was. To be called inside the queue pair's epoch.
    bool post(const ibv_send_wr &wr, std::uint64_t length, local_path *at_once);
    // Completions that are still in their queue go their own way.
    void forget_completions() { cq_of(ep_.qp->send_cq).forget(&freed_); }
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
    void reset();
    bool empty() const noexcept { return queue_.empty(); }
    std::uint64_t posted_count() const noexcept { return posted_; }
    // True while something that has been started is not complete.
    bool busy() const noexcept { return !queue_.empty() && (queue_.front().numbered || stalled_); }

private:
    struct work {
        work() noexcept {} // enqueue() fills in what there is

        std::uint64_t wr_id;
        ibv_wr_opcode opcode;
        unsigned flags;
        std::uint32_t imm_data;
        std::uint64_t remote_addr;
        std::uint32_t rkey;
        std::uint64_t compare_add; // of an atomic operation; a FLUSH keeps its arguments in these two
        std::uint64_t swap;
        std::uint32_t length;
        std::uint32_t psn;
        std::uint32_t sent;     // bytes handed to the path
        std::uint32_t received; // of a READ
        bool numbered;          // psn is valid
        bool unhurried;         // a later one's answer will do
        ibv_wc_status local_status;
        bool judged;           // whether a fault is to be injected has been decided
        bool answer_lost;      // injected, as is
        std::uint32_t late_us; // how late the answer is handled
        int sge_count;
        std::array<ibv_sge, limits::max_sge> sges;
        std::array<std::byte, limits::max_inline> inlined;

        bool is_read() const noexcept { return opcode == IBV_WR_RDMA_READ; }
        bool is_atomic() const noexcept { return kind_of(opcode).atomic; }
        // Completed by an answer of its own, as few of which may be awaited as the peer has room for.
        bool is_round_trip() const noexcept
        {
            return is_read() || is_atomic() || opcode == native::wr_flush || opcode == native::wr_atomic_write;
        }
        std::span<const ibv_sge> scatter() const noexcept { return {sges.data(), static_cast<std::size_t>(sge_count)}; }
    };

    void enqueue(const ibv_send_wr &wr, std::uint64_t length);
    static ibv_send_wr as_posted(work &w, ibv_sge &inlined) noexcept;
    execution execute(work &w);
    void show_executed(tap &t, const work &w);
    bool executed_locally(work &w, outcome &o);
    bool follows_to_peer(work &w) noexcept;
    void complete(std::uint64_t wr_id, ibv_wr_opcode opcode, std::uint32_t length, unsigned flags,
            ibv_wc_status status = IBV_WC_SUCCESS);
    bool is_signaled(unsigned flags) const noexcept { return signal_all_ || (flags & IBV_SEND_SIGNALED) != 0; }
    void await_owner() noexcept;
    void stop_awaiting_owner() noexcept;
    outcome stall();
    outcome local_timer_expired();
    outcome start_requests();
    void watch_answers();
    outcome transmit(work &w);
    packet round_trip_header(const work &w) const noexcept;
    outcome transmit_round_trip(work &w);
    outcome transmit_segment(work &w, std::uint32_t bytes);
    // Whether the one that is being handed to the path is not the last.
    bool more_follow() const noexcept { return next_ + 1 < queue_.size(); }
    opcode segment_opcode(const work &w, std::uint32_t bytes) const noexcept;
    bool may_wait(const work &w) const noexcept;
    void ask_for_answers();
    outcome local_error(work &w, ibv_wc_status status);
    void complete_first(ibv_wc_status status);
    bool complete_before(std::uint32_t psn);
    bool answers_first(const packet &p);
    outcome complete_answered();
    outcome go_on();
    outcome rejected(const packet &p);
    outcome receiver_not_ready(std::uint8_t timer);

    outcome handle_answer(const packet &p);
    outcome acknowledged(const packet &p);
    outcome read_response(const packet &p);
    outcome atomic_response(const packet &p);

    // What injected faults need to remember; NULL without any.
    struct kept_packet {
        packet header;
        std::vector<std::byte> payload;
    };
    struct injection {
        bool held_back = false; // nothing is started before the timer has run out
        std::optional<std::uint32_t> lost_from;
        std::deque<kept_packet> late;
        bool releasing = false;
    };
    bool injected(work &w, outcome &o);
    outcome refuse_once(work &w);
    void hold_back(std::chrono::microseconds delay);
    void lose_answers_from(std::uint32_t psn);
    bool intercepted(const packet &p);
    outcome release_injected();
    bool held_back() const noexcept { return injection_ != nullptr && injection_->held_back; }

    std::deque<work> queue_;
    endpoint &ep_;
    const bool signal_all_;
    // A request keeps its place until the program has taken its completion or, if it asked for none, that of a later
    // one: until then nobody has told the program that the place is free.
    std::uint32_t completed_ = 0;
    std::uint32_t unreported_ = 0;        // of those, the latest that asked for no completion
    std::atomic<std::uint32_t> freed_{0}; // of those; guarded by the completion queue's lock
    std::size_t next_ = 0;                // first entry not yet handed to the path entirely
    std::uint32_t next_psn_ = 0;
    std::uint64_t posted_ = 0;
    int round_trips_ = 0; // in flight
    int rnr_tries_ = 0;
    bool waiting_for_receiver_ = false;
    bool peer_silent_ = false;
    bool watches_answers_ = false;                        // its timer runs
    std::chrono::steady_clock::time_point progress_at_{}; // when something was sent or answered last
    std::unique_ptr<injection> injection_;
    bool awaits_owner_ = false; // of memory that only it can reach: polling looks at the network meanwhile
    // A message that found no receive in the peer's ring.
    bool stalled_ = false;
    bool asking_ = false; // the peer was told to say when it posts one
    static constexpr auto never = std::chrono::steady_clock::time_point::max();
    std::chrono::steady_clock::time_point timer_at_ = never; // when it runs out
    std::chrono::steady_clock::time_point retry_at_{};
};

} // namespace softrdma

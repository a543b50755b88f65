// SPDX-License-Identifier: BSD-3-Clause
// A requester and a responder of the device, connected by two queues of frames instead of sockets. The test decides
// which event comes next: there is no thread, and time passes only when the test fires a timer.
#pragma once

#include "rc_plan.hpp"
#include "wire/frame.hpp"

#include <string>
#include <string_view>

// When the responder sends what it owes for the requests that it has received.
enum class release_time {
    any_time,
    at_once,
    last, // once it has received all requests that are on their way
};

struct world_options {
    std::string plan{};
    std::size_t receives = 0; // posted at first; the rest is posted at any time, if ever, so that a SEND finds none
    bool managed = false;     // connected by the connection manager
    bool congests = false;    // the responder's path may be congested once
    bool posted_at_once = false;
    release_time released = release_time::any_time;
};

// An event at one of the two sides. Events of different sides commute, unless one receives what the other one sends.
enum class event : char {
    // at the requester
    post = 'p',
    post_rest = 'c', // remaining requests, as one chain
    receive_answer = 'g',
    timer = 't',
    requester_error = 'X',
    requester_reset = 'Z',
    requester_renew = 'N',
    requester_lost = 'E', // the end of the path
    // at the responder
    receive_request = 'd',
    release = 'r',       // the answers to all requests that were received
    post_receives = 'v', // all that the plan needs
    congest = 'h',
    writable = 'w',
    responder_error = 'x',
    responder_reset = 'z',
    responder_renew = 'n',
    responder_lost = 'e',
};
constexpr bool is_at_requester(event e) noexcept
{
    return std::string_view("pcgtXZNE").find(static_cast<char>(e)) != std::string_view::npos;
}

class rc_world
{
public:
    explicit rc_world(const world_options &options);
    ~rc_world();
    rc_world(const rc_world &) = delete;
    rc_world &operator=(const rc_world &) = delete;

    std::vector<event> enabled() const;
    void apply(event e);
    // Call when no event is enabled.
    void check_end();
    // Description of the violation; empty if none.
    const std::string &violation() const noexcept { return violation_; }

private:
    struct frame {
        int generation; // generation of the requester's connection
        std::vector<std::byte> bytes;
    };
    // One side's end of the path.
    class path final : public softrdma::packet_path
    {
    public:
        explicit path(const int &generation) : generation_(generation) {}
        void transmit(const softrdma::packet &header, std::span<const iovec> payload, bool more) override;
        void push() override {}
        bool congested() override { return is_congested; }
        std::size_t send_space() override { return softrdma::short_segment; }
        void start_timer(std::chrono::microseconds) override { timer = true; }
        void start_answer_timer(std::chrono::microseconds) override {}
        void ends(sockaddr_storage &, sockaddr_storage &) const override {}
        void cut() noexcept override { is_cut = peer->is_cut = true; }

        path *peer = nullptr;
        std::deque<frame> inbox;
        bool timer = false;
        bool is_congested = false;
        bool is_cut = false;  // the reader reports the loss, at any time
        bool is_lost = false; // it has

    private:
        const int &generation_;
    };
    struct side {
        std::unique_ptr<softrdma::completion_queue> cq;
        std::shared_ptr<softrdma::queue_pair> qp;
        std::shared_ptr<path> way;
    };

    void open(side &s);
    void bring_up(softrdma::queue_pair &qp);
    void change_state(side &s, ibv_qp_state to);
    void post(std::size_t count);
    void post_receive();
    void receive(side &s);
    void release();
    void lose(side &s);
    void poll_requester();
    void poll_responder();
    void check_success(std::size_t i);
    bool has_effect(std::size_t i) const;
    bool is_signaled(std::size_t i) const noexcept { return options_.plan[i] != 'w'; }
    // Receives are as long as a long SEND if the plan has one.
    char receive_letter() const noexcept { return options_.plan.find('s') == std::string::npos ? 'S' : 's'; }
    void report(const std::string &what);

    const world_options options_;
    int generation_ = 0;
    std::vector<std::size_t> first_of_generation_{0};
    side requester_;
    side responder_;
    std::size_t posted_ = 0;
    std::size_t completed_ = 0; // requests before that one have completed, or were forgotten by a reset
    bool failed_ = false;       // a request has completed with an error
    std::size_t receives_posted_ = 0;
    std::size_t receives_wanted_ = 0;
    std::size_t sends_ = 0;                     // number of SENDs in the plan
    std::array<bool, rc::max_plan> received_{}; // messages, with success
    bool discards_receives_ = false;            // the responder had received them when it was reset
    bool unreleased_ = false;
    bool may_congest_ = false;
    bool may_fail_ = true;   // one fault may happen: the loss of an end of the path, ERR or RESET of either side
    bool is_precise_ = true; // every request that was executed and has no response of its own succeeds
    std::array<bool, rc::max_plan> executed_{};
    std::string violation_;
};

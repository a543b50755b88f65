// SPDX-License-Identifier: BSD-3-Clause
// A requester and a responder of the device, connected by two queues of frames instead of sockets. The test chooses
// each next event: no thread runs, and time passes only when the test fires a timer.
#pragma once

#include "rc_plan.hpp"
#include "wire/frame.hpp"

#include <string>
#include <string_view>

// Time at which the responder sends its pending responses.
enum class release_time {
    any_time,
    at_once,
    last, // after it has received all requests in flight
};

struct world_options {
    std::string plan{};
    std::size_t receives =
            0;             // posted initially; the others are posted at any time or never, so that a SEND may find none
    bool managed = false;  // connected by the connection manager
    bool congests = false; // the responder's path may be congested once
    bool posted_at_once = false;
    release_time released = release_time::any_time;
};

// An event at one side. Events of different sides commute, unless one receives what the other sent.
enum class event : char {
    // at the requester
    post = 'p',
    post_rest = 'c', // remaining requests, as one chain
    receive_answer = 'g',
    timer = 't',
    requester_error = 'X',
    requester_reset = 'Z',
    requester_renew = 'N',
    requester_lost = 'E', // loss of the path
    // at the responder
    receive_request = 'd',
    release = 'r',       // sends the pending responses
    post_receives = 'v', // posts all receives that the plan needs
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
    // Checks the result. Call when no event is enabled.
    void check_end();
    // Returns the description of the violation, or an empty string.
    const std::string &violation() const noexcept { return violation_; }

private:
    // One side's end of the path.
    class path final : public frame_path
    {
    public:
        explicit path(const int &generation) : generation_(generation) {}
        void transmit(const softrdma::packet &header, std::span<const iovec> payload, bool more) override;
        bool is_empty() const noexcept { return inbox_.empty(); }
        void clear() noexcept
        {
            inbox_.clear();
            generations.clear();
        }
        bool congested() override { return is_congested; }
        std::size_t send_space() override { return softrdma::short_segment; }
        void start_timer(std::chrono::microseconds) override { timer = true; }
        void cut() noexcept override { is_cut = other().is_cut = true; }

        std::deque<int> generations; // generation of the requester's connection, for each packet that has arrived
        bool timer = false;
        bool is_congested = false;
        bool is_cut = false;  // the reader may report the loss at any time
        bool is_lost = false; // the loss was reported

    private:
        path &other() noexcept { return static_cast<path &>(*peer); }

        const int &generation_;
    };
    struct side {
        std::unique_ptr<softrdma::completion_queue> cq;
        std::shared_ptr<softrdma::queue_pair> qp;
        std::shared_ptr<path> connection_path;
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
    // Receives have the length of a long SEND if the plan contains one.
    char receive_letter() const noexcept { return options_.plan.find('s') == std::string::npos ? 'S' : 's'; }
    void report(const std::string &what);

    const world_options options_;
    int generation_ = 0;
    std::vector<std::size_t> first_of_generation_{0};
    side requester_;
    side responder_;
    std::size_t posted_ = 0;
    std::size_t completed_ = 0; // requests that completed or that a reset discarded
    bool failed_ = false;       // a request completed with an error
    std::size_t receives_posted_ = 0;
    std::size_t receives_wanted_ = 0;
    std::size_t sends_ = 0;                     // number of SENDs in the plan
    std::array<bool, rc::max_plan> received_{}; // messages received with success
    bool discards_receives_ = false;            // the responder had received the messages when it was reset
    bool unreleased_ = false;
    bool may_congest_ = false;
    bool may_fail_ = true;   // one fault may happen: loss of the path, ERR or RESET of either side
    bool is_precise_ = true; // every executed request without a response of its own must succeed
    std::array<bool, rc::max_plan> executed_{};
    std::string violation_;
};

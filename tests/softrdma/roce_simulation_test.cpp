// SPDX-License-Identifier: BSD-3-Clause
// Two queue pairs of the device over RoCE packets that a network loses, repeats and reorders: each request is executed
// once, and each byte of each message arrives. One side or both send requests. The letters of a plan are those of
// rc_plan.hpp, and I, a WRITE with immediate.
#include "rc_plan.hpp"
#include "transport/roce/replier.hpp"
#include "transport/roce/sender.hpp"
#include "wire/rnr_timer.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>

using namespace softrdma;
using namespace std::chrono_literals;
using roce::time_point;

namespace
{

constexpr std::uint32_t max_size = rc::long_size;
constexpr std::size_t max_steps = 200000;
constexpr auto max_delay = 200us;
constexpr auto timeout = 1ms;
constexpr auto response_pause = 200us;

struct packet_losses {
    double lost = 0;
    double repeated = 0;
    double delayed = 0; // later packets overtake them
};

class world;

// One end of the connection: the queue pair, and its path, which is the code under test.
class side final : public idle_path, private roce::packet_outlet
{
public:
    side(world &w, const roce::attributes &attr) : world_(w), sender_(attr, *this), replier_(attr, *this) {}

    void transmit(const packet &header, std::span<const iovec> payload, bool more) override;
    bool congested() override { return was_congested_ = sender_.congested(); }
    bool responses_congested() override { return pause_end_.has_value(); }
    std::size_t send_space() override { return short_segment; }
    void start_timer(std::chrono::microseconds delay) override;

    void arrived(std::span<const std::byte> bytes);
    std::optional<time_point> deadline() const noexcept;
    bool has_rejected() const noexcept { return replier_.has_failed(); }
    void pass_time();

    side *peer = nullptr;
    std::unique_ptr<completion_queue> send_cq;
    std::unique_ptr<completion_queue> recv_cq;
    std::shared_ptr<queue_pair> qp;

private:
    void send(const packet &p, std::span<const std::byte> payload) override;

    world &world_;
    roce::sender sender_;
    roce::replier replier_;
    std::optional<time_point> timer_;
    std::optional<time_point> pause_end_; // READ responses wait until then
    bool was_congested_ = false;
};

// Requests of one side to the other.
class flow
{
public:
    flow(world &w, rc::plan_memory &memory, std::string plan);

    void connect(const std::shared_ptr<side> &from, const std::shared_ptr<side> &to);
    const std::string &plan() const noexcept { return plan_; }
    bool is_posted() const noexcept { return posted_ == plan_.size() && receives_posted_ == receives_wanted_; }
    bool is_done() const;
    void post_sometimes();
    void poll();
    void check() const;

private:
    void post();
    void post_receive();
    void poll_receives();
    bool is_at(std::size_t i, const std::byte *at) const;
    std::byte *source(std::size_t i) const;

    world &world_;
    rc::plan_memory &memory_;
    const std::string plan_;
    std::shared_ptr<side> requester_;
    std::shared_ptr<side> responder_;
    std::vector<std::uint32_t> sizes_;
    std::vector<std::vector<std::byte>> contents_; // bytes that each request transfers
    std::size_t posted_ = 0;
    std::size_t completed_ = 0;
    std::size_t failed_ = rc::max_plan; // first request that failed
    std::size_t receives_wanted_ = 0;
    std::size_t receives_posted_ = 0;
    std::size_t received_ = 0;
};

class world
{
public:
    world(std::uint64_t seed, const packet_losses &losses);
    ~world();
    world(const world &) = delete;
    world &operator=(const world &) = delete;

    // Returns the violation; empty if none.
    std::string run();
    void carry(side &to, std::vector<std::byte> bytes);
    void report(const std::string &what)
    {
        if (violation_.empty())
            violation_ = what;
    }
    time_point now() const noexcept { return now_; }
    std::uint32_t mtu() const noexcept { return mtu_; }
    bool sends_bulk() const noexcept { return sends_bulk_; }
    bool is_reliable() const noexcept { return losses_.lost + losses_.repeated + losses_.delayed == 0; }
    std::string plans() const { return flows_[0].plan() + ' ' + flows_[1].plan(); }
    std::uint64_t random() { return random_(); }
    std::size_t below(std::size_t limit) { return random_() % limit; }

private:
    struct carried {
        side *to;
        std::vector<std::byte> bytes;
    };
    bool happens(double probability) { return std::bernoulli_distribution(probability)(random_); }
    std::string new_plan(bool is_forward);
    std::shared_ptr<side> open(std::uint32_t number);
    bool carry_next();

    std::mt19937_64 random_;
    const packet_losses losses_;
    const bool sends_bulk_; // both sides send more packets than a path queues
    const bool rejects_;    // the last request, which ends the connection; only one side sends requests then
    const std::uint32_t mtu_;
    std::string violation_;
    time_point now_{};
    std::multimap<time_point, carried> network_;
    std::array<flow, 2> flows_;
    std::array<std::shared_ptr<side>, 2> sides_;
};

constexpr std::uint32_t first_number = 1u << 20;
constexpr std::uint32_t second_number = first_number + 1;

void side::transmit(const packet &header, std::span<const iovec> payload, bool)
{
    if (is_request(header.op) || header.op == opcode::ack_request)
        sender_.post(header, payload, world_.now());
    else
        replier_.reply(header, payload);
    if (is_read_response(header.op) && world_.below(4) == 0)
        pause_end_ = world_.now() + response_pause;
}

void side::start_timer(std::chrono::microseconds delay)
{
    timer_ = world_.now() + delay;
}

void side::send(const packet &p, std::span<const std::byte> payload)
{
    if (payload.size() > world_.mtu())
        world_.report("a packet is longer than the MTU");
    const roce::transport_headers headers = roce::encode(p, payload.size());
    std::vector<std::byte> bytes(
            headers.bytes.begin(), headers.bytes.begin() + static_cast<std::ptrdiff_t>(headers.size));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(bytes.size() + headers.padding + sizeof(roce::invariant_crc));
    world_.carry(*peer, std::move(bytes));
}

void side::arrived(std::span<const std::byte> bytes)
{
    packet p;
    if (!roce::decode(bytes, p))
        return world_.report("a packet cannot be decoded");
    const auto up = is_request(p.op) ? replier_.arrived(p) : sender_.arrived(p, world_.now());
    if (up && !qp->receiver()->receive(*this, *up))
        world_.report("the device takes packet " + std::to_string(static_cast<int>(up->op)) + " for a violation");
    qp->receiver()->received_all();
    replier_.received_all();
    if (was_congested_ && !sender_.congested()) {
        was_congested_ = false;
        qp->receiver()->path_writable();
    }
}

std::optional<time_point> side::deadline() const noexcept
{
    std::optional<time_point> first;
    for (const auto &at : {timer_, pause_end_, sender_.deadline()})
        first = at && (!first || *at < *first) ? at : first;
    return first;
}

void side::pass_time()
{
    if (timer_ && *timer_ <= world_.now()) {
        timer_.reset();
        qp->receiver()->timer_expired();
    }
    if (pause_end_ && *pause_end_ <= world_.now()) {
        pause_end_.reset();
        qp->receiver()->path_writable();
    }
    const bool had_failed = sender_.has_failed();
    sender_.expired(world_.now());
    if (had_failed || !sender_.has_failed())
        return;
    if (!peer->has_rejected()) // it responds no longer after a rejection
        world_.report("the retry limit is exceeded");
    qp->path_lost(this);
}

flow::flow(world &w, rc::plan_memory &memory, std::string plan) : world_(w), memory_(memory), plan_(std::move(plan))
{
    const std::uint32_t mtu = w.mtu();
    for (std::size_t i = 0; i < plan_.size(); ++i) {
        const std::uint32_t some[] = {1, 8, mtu - 1, mtu, mtu + 1, 2 * mtu, max_size};
        const auto any = static_cast<std::uint32_t>(1 + w.below(max_size));
        sizes_.push_back(plan_[i] == 'A' || plan_[i] == 'F' ? word_size
                         : w.sends_bulk()                   ? max_size
                         : w.below(2) == 0                  ? any
                                                            : some[w.below(std::size(some))]);
        std::vector<std::byte> content(sizes_.back());
        for (std::byte &b : content)
            b = static_cast<std::byte>(w.random());
        content.front() |= std::byte{1}; // differs from the memory to which nothing was written
        contents_.push_back(std::move(content));
        receives_wanted_ += plan_[i] == 'S' || plan_[i] == 'I';
        for (rc::plan_memory::memory *m : {&memory_.requester, &memory_.responder, &memory_.receives})
            std::fill_n(rc::place(*m, 's', i), max_size, std::byte{0});
        std::copy(contents_[i].begin(), contents_[i].end(), source(i));
    }
}

void flow::connect(const std::shared_ptr<side> &from, const std::shared_ptr<side> &to)
{
    requester_ = from;
    responder_ = to;
    for (std::size_t i = world_.below(receives_wanted_ + 1); i > 0; --i)
        post_receive();
}

// Memory that request `i` reads.
std::byte *flow::source(std::size_t i) const
{
    return rc::place(plan_[i] == 'R' || plan_[i] == 'A' ? memory_.responder : memory_.requester, 's', i);
}

world::world(std::uint64_t seed, const packet_losses &losses)
    : random_(seed), losses_(losses), sends_bulk_(below(8) == 0), rejects_(!sends_bulk_ && below(4) == 0),
      mtu_(sends_bulk_ || below(4) == 0 ? 256 : 1024), flows_{flow(*this, rc::shared().forward, new_plan(true)),
                                                               flow(*this, rc::shared().backward, new_plan(false))},
      sides_{open(first_number), open(second_number)}
{
    for (std::size_t i = 0; i < sides_.size(); ++i) {
        sides_[i]->peer = sides_[1 - i].get();
        flows_[i].connect(sides_[i], sides_[1 - i]);
    }
}

world::~world()
{
    for (const auto &s : sides_)
        s->qp->destroy();
    while (rc::shared().device.next_event() >= 0) {
    }
    rc::shared().device.later.run();
    for (const auto &s : sides_)
        s->qp.reset(); // it holds its side
}

std::string world::new_plan(bool is_forward)
{
    if (!is_forward && (rejects_ || (!sends_bulk_ && below(2) == 0)))
        return {};
    const std::string_view letters = sends_bulk_ ? "WR" : "SWwRAFI";
    std::string plan;
    for (std::size_t i = sends_bulk_ ? rc::max_plan : 1 + below(rc::max_plan); i > 0; --i)
        plan += letters[below(letters.size())];
    if (rejects_)
        plan.back() = 'k';
    return plan;
}

std::shared_ptr<side> world::open(std::uint32_t number)
{
    roce::attributes attr;
    attr.dest_qpn = number == first_number ? second_number : first_number;
    attr.mtu = mtu_;
    attr.send_psn = attr.receive_psn = rc::first_psn;
    attr.timeout = timeout;
    attr.retry_cnt = 15; // more than a queue pair permits: 7 retries all fail once in 1,000 seeds
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    auto s = std::make_shared<side>(*this, attr);
    for (auto *cq : {&s->send_cq, &s->recv_cq})
        *cq = std::make_unique<completion_queue>(rc::shared().device.context(), 64, nullptr, nullptr);
    ibv_qp_init_attr init = rc_attributes(*s->send_cq, rc::max_plan);
    init.recv_cq = s->recv_cq->verbs();
    s->qp = queue_pair::create(&rc::shared().device.pd, init, number);
    s->qp->open_batch();
    s->qp->attach(s);
    ibv_qp_attr to{};
    to.qp_access_flags = connected_pair::all_access;
    to.path_mtu = mtu_ == 256 ? IBV_MTU_256 : IBV_MTU_1024;
    to.dest_qp_num = attr.dest_qpn;
    to.rq_psn = to.sq_psn = rc::first_psn;
    to.rnr_retry = infinite_retry;
    to.min_rnr_timer = 12;
    to.max_rd_atomic = to.max_dest_rd_atomic = 4;
    if (!enter_rts(*s->qp, to))
        report("a change of state was rejected");
    return s;
}

void world::carry(side &to, std::vector<std::byte> bytes)
{
    const int copies = happens(losses_.lost) ? 0 : happens(losses_.repeated) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
        const auto delay =
                happens(losses_.delayed) ? max_delay * static_cast<int>(1 + below(4)) : std::chrono::microseconds(20);
        network_.emplace(now_ + delay, carried{&to, bytes});
    }
}

ibv_wr_opcode opcode_of(char request) noexcept
{
    return request == 'I' ? IBV_WR_RDMA_WRITE_WITH_IMM : rc::opcode_of(request);
}

void flow::post()
{
    rc::plan_memory &m = memory_;
    post_batch &batch = *requester_->qp->batch();
    batch.start();
    for (const std::size_t end = posted_ + 1 + world_.below(plan_.size() - posted_); posted_ < end; ++posted_) {
        const char request = plan_[posted_];
        wqe &w = batch.add(posted_, request == 'w' ? 0 : IBV_SEND_SIGNALED, opcode_of(request));
        const std::uint32_t key = m.responder.area_mr->rkey;
        w.set_remote(rc::address_of(m.responder, 's', posted_), request == 'k' ? key ^ 1 : key);
        if (request == 'F')
            w.args.flush = {word_size, native::placement_global, native::level_range};
        else
            batch.set_sge(rc::address_of(m.requester, 's', posted_), sizes_[posted_], m.requester.area_mr->lkey);
        if (request == 'A')
            w.args.atomic = {.compare_add = 1, .swap = 0};
    }
    if (batch.error() != 0 || requester_->qp->submit_batch(batch.size()) != 0)
        world_.report("a request was rejected when it was posted");
    batch.unlock();
}

void flow::post_receive()
{
    rc::plan_memory::memory &m = memory_.receives;
    const ibv_sge list{rc::address_of(m, 's', receives_posted_), max_size, m.area_mr->lkey};
    if (post_one(*responder_->qp, receives_posted_++, list) != 0)
        world_.report("a receive was rejected when it was posted");
}

void flow::post_sometimes()
{
    if (posted_ < plan_.size() && world_.below(4) == 0)
        post();
    if (receives_posted_ < receives_wanted_ && world_.below(64) == 0)
        post_receive();
}

bool flow::is_at(std::size_t i, const std::byte *at) const
{
    return std::equal(contents_[i].begin(), contents_[i].end(), at);
}

void flow::poll_receives()
{
    ibv_wc wc{};
    while (responder_->recv_cq->poll(1, &wc) == 1) {
        std::size_t i = 0; // the request that consumes this receive
        for (std::size_t before = 0; i < plan_.size(); ++i) {
            if ((plan_[i] == 'S' || plan_[i] == 'I') && before++ == received_)
                break;
        }
        if (wc.status != IBV_WC_SUCCESS || wc.wr_id != received_ || i >= posted_ || wc.byte_len != sizes_[i])
            return world_.report("receive " + std::to_string(wc.wr_id) + " has status " + std::to_string(wc.status));
        const bool is_send = plan_[i] == 'S';
        if (!is_at(i, rc::place(is_send ? memory_.receives : memory_.responder, 's', is_send ? received_ : i)))
            world_.report("message " + std::to_string(i) + " has other bytes");
        ++received_;
    }
}

void flow::poll()
{
    poll_receives();
    ibv_wc wc{};
    while (requester_->send_cq->poll(1, &wc) == 1) {
        if (wc.wr_id < completed_ || wc.wr_id >= posted_)
            return world_.report("request " + std::to_string(wc.wr_id) + " completed twice");
        const bool is_rejected = plan_[wc.wr_id] == 'k' && wc.status == IBV_WC_REM_ACCESS_ERR;
        // The responder is silent after a rejection. Its NAK, or what the peer must receive before it, may be lost.
        const bool is_silent = !world_.is_reliable() && responder_->has_rejected() && wc.status == IBV_WC_RETRY_EXC_ERR;
        if (wc.status != IBV_WC_SUCCESS && failed_ > wc.wr_id)
            failed_ = wc.wr_id;
        const ibv_wc_status expected = failed_ < wc.wr_id ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
        if (wc.status != expected && !is_rejected && !is_silent)
            return world_.report("request " + std::to_string(wc.wr_id) + " has status " + std::to_string(wc.status));
        completed_ = wc.wr_id + 1;
    }
}

bool flow::is_done() const
{
    const std::size_t last = plan_.find_last_not_of('w');
    return posted_ == plan_.size() && completed_ >= last + 1 && requester_->qp->sends().empty();
}

void flow::check() const
{
    for (std::size_t i = 0; i < plan_.size(); ++i) {
        const char request = plan_[i];
        if (request == 'A') {
            std::uint64_t before = 0;
            std::uint64_t after = 0;
            memcpy(&before, contents_[i].data(), sizeof(before));
            memcpy(&after, rc::place(memory_.responder, 's', i), sizeof(after));
            if (after != before + 1)
                world_.report("atomic operation " + std::to_string(i) + " was executed more or less than once");
        }
        if (request == 'k' && is_at(i, rc::place(memory_.responder, 's', i)))
            world_.report("a rejected request was executed");
        const bool has_result = request != 'F' && request != 'S' && request != 'k';
        const bool reads = request == 'R' || request == 'A';
        if (has_result && (!reads || i < failed_) &&
                !is_at(i, rc::place(reads ? memory_.requester : memory_.responder, 's', i)))
            world_.report("request " + std::to_string(i) + " has other bytes");
    }
    if (received_ != receives_wanted_)
        world_.report("a message was not received");
}

// Delivers the next packet, or lets the time pass until the next deadline. Returns false if neither exists.
bool world::carry_next()
{
    const auto first = network_.begin();
    std::optional<time_point> next;
    for (const auto &s : sides_) {
        if (const auto at = s->deadline(); at && (!next || *at < *next))
            next = at;
    }
    if (first != network_.end() && (!next || first->first <= *next)) {
        now_ = std::max(now_, first->first);
        const carried c = std::move(first->second);
        network_.erase(first);
        c.to->arrived(c.bytes);
        return true;
    }
    if (!next)
        return false;
    now_ = std::max(now_, *next);
    for (const auto &s : sides_)
        s->pass_time();
    return true;
}

std::string world::run()
{
    for (std::size_t step = 0; violation_.empty() && !std::ranges::all_of(flows_, &flow::is_done); ++step) {
        if (step == max_steps)
            report("the requests do not end");
        for (flow &f : flows_)
            f.post_sometimes();
        if (!carry_next() && std::ranges::all_of(flows_, &flow::is_posted))
            report("nothing is in flight, but requests have not completed");
        for (flow &f : flows_)
            f.poll();
    }
    if (violation_.empty())
        std::ranges::for_each(flows_, &flow::check);
    return violation_;
}

} // namespace

// usage: ... [SEED]
int main(int argc, char **argv)
{
    constexpr std::uint64_t seeds = 1000;
    const packet_losses networks[] = {{}, {.lost = 0.01}, {.lost = 0.1}, {.repeated = 0.2}, {.delayed = 0.1},
            {.lost = 0.05, .repeated = 0.05, .delayed = 0.05}};
    const std::uint64_t only = argc > 1 ? std::stoull(argv[1]) : 0;
    int failures = 0;
    for (std::uint64_t seed = argc > 1 ? only : 1; seed <= (argc > 1 ? only : seeds); ++seed) {
        world w(seed, networks[seed % std::size(networks)]);
        const std::string violation = w.run();
        if (violation.empty())
            continue;
        printf("seed %llu, plans %s: %s\n", static_cast<unsigned long long>(seed), w.plans().c_str(),
                violation.c_str());
        if (++failures == 10)
            break;
    }
    return failures > 0 ? 1 : 0;
}

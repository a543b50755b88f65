// SPDX-License-Identifier: BSD-3-Clause
#include "rc_world.hpp"

#include <algorithm>

using namespace softrdma;
using namespace rc;

void rc_world::path::transmit(const packet &header, std::span<const iovec> payload, bool more)
{
    if (is_cut || is_lost)
        return;
    other().generations.push_back(generation_);
    frame_path::transmit(header, payload, more);
}

rc_world::rc_world(const world_options &options) : options_(options), may_congest_(options.congests)
{
    plan_memory &h = shared().forward;
    for (std::size_t i = 0; i < options_.plan.size(); ++i) {
        const char request = options_.plan[i];
        const std::uint32_t size = size_of(request);
        memset(place(h.requester, request, i), 0, size);
        memset(place(h.responder, request, i), 0, size);
        if (opcode_of(request) == IBV_WR_RDMA_READ)
            place(h.responder, request, i)[size - 1] = last_byte(i);
        else if (request != 'A')
            place(h.requester, request, i)[size - 1] = last_byte(i);
        sends_ += is_send(request);
    }
    receives_wanted_ = sends_;
    open(requester_);
    open(responder_);
    requester_.connection_path->peer = responder_.connection_path.get();
    responder_.connection_path->peer = requester_.connection_path.get();
    bring_up(*responder_.qp);
    bring_up(*requester_.qp);
    while (receives_posted_ < options_.receives)
        post_receive();
    if (options_.posted_at_once)
        post(options_.plan.size());
}

rc_world::~rc_world()
{
    for (side *s : {&requester_, &responder_})
        s->qp->destroy();
    while (shared().device.next_event() >= 0) {
    }
    shared().device.later.run();
}

void rc_world::open(side &s)
{
    static std::uint32_t number = 1u << 20;
    s.cq = std::make_unique<completion_queue>(shared().device.context(), 64, nullptr, nullptr);
    ibv_qp_init_attr attr = rc_attributes(*s.cq, max_plan);
    s.qp = queue_pair::create(&shared().device.pd, attr, options_.managed ? 0 : ++number);
    if (s.qp == nullptr)
        throw std::bad_alloc();
    s.qp->open_batch();
    s.connection_path = std::make_shared<path>(generation_);
    s.qp->attach(s.connection_path);
}

void rc_world::bring_up(queue_pair &qp)
{
    ibv_qp_attr attr{};
    attr.qp_access_flags = connected_pair::all_access;
    attr.path_mtu = IBV_MTU_1024;
    attr.rq_psn = attr.sq_psn = first_psn;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = limits::max_reads;
    if (!enter_rts(qp, attr))
        report("a change of state was rejected");
}

// Omits events that cannot change how the requests complete.
std::vector<event> rc_world::enabled() const
{
    std::vector<event> all;
    const auto may = [&](bool is_enabled, event e) {
        if (is_enabled)
            all.push_back(e);
    };
    const ibv_qp_state state = requester_.qp->qp_base.state;
    const path &to_requester = *requester_.connection_path;
    const bool is_over = state == IBV_QPS_ERR || (state == IBV_QPS_RESET && !options_.managed) ||
                         (completed_ == options_.plan.size() && to_requester.is_empty());
    if (is_over || !violation_.empty())
        return all;
    const std::size_t left = options_.plan.size() - posted_;
    may(left > 0 && state == IBV_QPS_RTS, event::post);
    may(left > 1 && state == IBV_QPS_RTS, event::post_rest);
    may(options_.managed && state == IBV_QPS_RESET, event::requester_renew);
    if (to_requester.is_lost)
        return all;
    const ibv_qp_state peer_state = responder_.qp->qp_base.state;
    const path &to_responder = *responder_.connection_path;
    const bool answers = peer_state == IBV_QPS_RTS && !to_responder.is_lost;
    may(!to_requester.is_empty(), event::receive_answer);
    may(to_requester.timer, event::timer);
    may(!to_responder.is_empty() && !to_responder.is_lost, event::receive_request);
    may(unreleased_ && answers && (options_.released != release_time::last || to_responder.is_empty()), event::release);
    may(receives_posted_ < receives_wanted_ && answers, event::post_receives);
    may(may_congest_ && answers, event::congest);
    may(to_responder.is_congested && answers, event::writable);
    may(options_.managed && peer_state == IBV_QPS_RESET && !to_responder.is_lost, event::responder_renew);
    may(may_fail_ || to_requester.is_cut || to_responder.is_lost, event::requester_lost);
    may((may_fail_ || to_responder.is_cut) && !to_responder.is_lost, event::responder_lost);
    may(may_fail_, event::requester_error);
    may(may_fail_, event::requester_reset);
    may(may_fail_, event::responder_error);
    may(may_fail_, event::responder_reset);
    return all;
}

void rc_world::change_state(side &s, ibv_qp_state to)
{
    may_fail_ = false;
    ibv_qp_attr attr{};
    attr.qp_state = to;
    s.qp->modify(attr, IBV_QP_STATE);
    if (to == IBV_QPS_RESET && !options_.managed) { // closes the connection, unless a connection manager keeps it
        s.qp->attach(nullptr);
        s.connection_path->is_lost = true;
    }
}

void rc_world::lose(side &s)
{
    may_fail_ = false;
    s.connection_path->is_lost = true;
    s.connection_path->clear();
    s.qp->path_lost(s.connection_path.get());
}

void rc_world::apply(event e)
{
    if (is_at_requester(e) && e != event::post && e != event::post_rest && e != event::receive_answer &&
            e != event::timer)
        is_precise_ = false;
    if (e == event::responder_lost || e == event::responder_reset)
        is_precise_ = false;
    switch (e) {
    case event::post:
        post(1);
        break;
    case event::post_rest:
        post(options_.plan.size() - posted_);
        break;
    case event::receive_answer:
        receive(requester_);
        break;
    case event::timer:
        requester_.connection_path->timer = false;
        requester_.qp->receiver()->timer_expired();
        break;
    case event::requester_error:
        change_state(requester_, IBV_QPS_ERR);
        break;
    case event::requester_reset:
        change_state(requester_, IBV_QPS_RESET);
        poll_requester(); // discards the completions
        completed_ = posted_;
        failed_ = false;
        break;
    case event::requester_renew:
        first_of_generation_.push_back(posted_);
        ++generation_;
        bring_up(*requester_.qp);
        break;
    case event::requester_lost:
        lose(requester_);
        break;
    case event::receive_request:
        receive(responder_);
        break;
    case event::release:
        release();
        break;
    case event::post_receives:
        while (receives_posted_ < receives_wanted_)
            post_receive();
        break;
    case event::congest:
        may_congest_ = false;
        responder_.connection_path->is_congested = true;
        break;
    case event::writable:
        responder_.connection_path->is_congested = false;
        responder_.qp->receiver()->path_writable();
        break;
    case event::responder_error:
        change_state(responder_, IBV_QPS_ERR);
        break;
    case event::responder_reset:
        poll_responder();
        change_state(responder_, IBV_QPS_RESET);
        discards_receives_ = true;
        receives_wanted_ = receives_posted_ + sends_ -
                           static_cast<std::size_t>(std::count(received_.begin(), received_.end(), true));
        break;
    case event::responder_renew:
        bring_up(*responder_.qp);
        break;
    case event::responder_lost:
        lose(responder_);
        break;
    }
    poll_responder();
    poll_requester();
}

void rc_world::post(std::size_t count)
{
    plan_memory &h = shared().forward;
    post_batch &batch = *requester_.qp->batch();
    batch.start();
    for (const std::size_t end = posted_ + count; posted_ < end; ++posted_) {
        const char request = options_.plan[posted_];
        const bool has_wrong_key = request == 'k' || request == 'q';
        const ibv_mr &from = is_long(request) ? *h.requester.area_mr : *h.requester.slots_mr;
        const ibv_mr &to = is_long(request) ? *h.responder.area_mr : *h.responder.slots_mr;
        wqe &w = batch.add(posted_, is_signaled(posted_) ? IBV_SEND_SIGNALED : 0, opcode_of(request));
        w.set_remote(address_of(h.responder, request, posted_), has_wrong_key ? to.rkey ^ 1 : to.rkey);
        if (request == 'F')
            w.args.flush = {word_size, native::placement_global, native::level_range};
        else
            batch.set_sge(address_of(h.requester, request, posted_), size_of(request), from.lkey);
        if (request == 'A')
            w.args.atomic = {.compare_add = 1, .swap = 0};
    }
    if (batch.error() != 0 || requester_.qp->submit_batch(batch.size()) != 0)
        report("a request was rejected when it was posted");
    batch.unlock();
}

void rc_world::post_receive()
{
    plan_memory::memory &m = shared().forward.receives;
    const char as = receive_letter();
    std::byte *const at = place(m, as, receives_posted_);
    at[size_of('S') - 1] = at[size_of(as) - 1] = std::byte{0};
    const ibv_mr &mr = is_long(as) ? *m.area_mr : *m.slots_mr;
    const ibv_sge list{address_of(m, as, receives_posted_), is_long(as) ? long_size : receive_size, mr.lkey};
    if (post_one(*responder_.qp, receives_posted_++, list) != 0)
        report("a receive was rejected when it was posted");
}

void rc_world::receive(side &s)
{
    const bool answers = &s == &responder_;
    std::vector<std::byte> frame;
    packet p;
    if (!s.connection_path->take(frame) || !decode(frame, p))
        return report("a frame cannot be decoded");
    const auto generation = static_cast<std::size_t>(s.connection_path->generations.front());
    s.connection_path->generations.pop_front();
    const transport &protocol = s.qp->network();
    const std::uint64_t before = answers ? protocol.executed_count() : 0;
    const bool good = s.qp->receiver()->receive(*s.connection_path, p);
    if (answers) {
        // Requests that are ignored after a SEND without a receive have no reply.
        unreleased_ =
                unreleased_ || protocol.executed_count() != before || is_send(p.op) || p.op == opcode::ack_request;
        const auto i = first_of_generation_[generation] + ((p.psn - first_psn) & psn_mask);
        if (protocol.executed_count() != before && s.qp->qp_base.state == IBV_QPS_RTS) {
            if (std::exchange(executed_[i], true))
                report("request " + std::to_string(i) + " was executed twice");
        }
    } else {
        s.qp->receiver()->received_all();
    }
    if (!good)
        s.connection_path->cut();
    else if (options_.released == release_time::at_once && unreleased_)
        release();
}

void rc_world::release()
{
    unreleased_ = false;
    responder_.qp->receiver()->received_all();
}

void rc_world::poll_responder()
{
    ibv_wc wc{};
    while (responder_.cq->poll(1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS)
            continue;
        const std::byte *at = place(shared().forward.receives, receive_letter(), wc.wr_id);
        const auto i = static_cast<std::size_t>(at[wc.byte_len - 1]) - static_cast<std::size_t>(last_byte(0));
        if (i >= posted_ || std::exchange(received_[i], true))
            return report("a message was received that was not sent, or twice");
    }
}

void rc_world::poll_requester()
{
    ibv_wc wc{};
    while (requester_.cq->poll(1, &wc) == 1) {
        const auto i = static_cast<std::size_t>(wc.wr_id);
        if (i < completed_ || i >= posted_)
            return report("request " + std::to_string(i) + " completed twice, or out of order");
        for (; completed_ < i; ++completed_) {
            if (failed_ || is_signaled(completed_))
                return report("request " + std::to_string(completed_) + " lacks a completion");
        }
        completed_ = i + 1;
        if (wc.status == IBV_WC_SUCCESS) {
            check_success(i);
        } else if (!std::exchange(failed_, true)) {
            if (wc.status == IBV_WC_RETRY_EXC_ERR && may_fail_)
                report("request " + std::to_string(i) + " got no response");
            for (std::size_t before = first_of_generation_.back(); before < i; ++before) {
                if (!executed_[before])
                    report("request " + std::to_string(before) + " was not executed, but request " + std::to_string(i) +
                            " is the first that failed");
            }
            // Requests with a response of their own, which may be lost, and those that the responder rejects.
            const bool can_fail = std::string_view("RArFqkl").find(options_.plan[i]) != std::string_view::npos;
            if (executed_[i] && is_precise_ && !can_fail)
                report("request " + std::to_string(i) + " was executed, but is the first that failed");
        }
    }
}

void rc_world::check_success(std::size_t i)
{
    if (failed_)
        report("request " + std::to_string(i) + " succeeded after one that failed");
    for (std::size_t before = first_of_generation_.back(); before <= i; ++before) {
        if (!executed_[before] || !has_effect(before))
            report("request " + std::to_string(i) + " succeeded, but request " + std::to_string(before) +
                    " was not executed");
    }
}

bool rc_world::has_effect(std::size_t i) const
{
    plan_memory &h = shared().forward;
    const char request = options_.plan[i];
    if (is_send(request))
        return received_[i] || discards_receives_;
    const bool reads = opcode_of(request) == IBV_WR_RDMA_READ;
    const std::byte *at = place(reads ? h.requester : h.responder, request, i);
    return request == 'F' || (request == 'A' ? at[0] == std::byte{1} : at[size_of(request) - 1] == last_byte(i));
}

void rc_world::check_end()
{
    const ibv_qp_state state = requester_.qp->qp_base.state;
    if (state != IBV_QPS_RTS && state != IBV_QPS_ERR)
        return;
    if (posted_ < options_.plan.size()) {
        post(options_.plan.size() - posted_);
        poll_requester();
    }
    for (; completed_ < posted_; ++completed_) {
        if (failed_ || is_signaled(completed_))
            return report("request " + std::to_string(completed_) + " never completed");
    }
}

void rc_world::report(const std::string &what)
{
    if (violation_.empty())
        violation_ = what;
}

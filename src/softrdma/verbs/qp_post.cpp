// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/or_no_memory.hpp"
#include "fault/rules.hpp"
#include "verbs/number_table.hpp"
#include "verbs/qp.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma
{

void queue_pair::posted(const attempt &direct)
{
    if (queue_.empty())
        return queue_.rewind();
    if (ep_.attr.qp_state == IBV_QPS_ERR)
        transport_->flush_sends();
    else if (ep_.attr.qp_state == IBV_QPS_RTS)
        apply_outcome(direct.result == post_result::done ? transport_->execute()
                                                         : transport_->tried_in_memory(direct.result));
    if (ep_.attr.qp_state == IBV_QPS_RTS && ep_.path_lost && transport_->fail_first(IBV_WC_RETRY_EXC_ERR))
        fail("request posted after the connection was lost");
}

bool queue_pair::may_attempt() const noexcept
{
    return ep_.local != nullptr && queue_.empty() && ep_.attr.qp_state == IBV_QPS_RTS && !ep_.path_lost &&
           !fault::active() && tap::current() == nullptr;
}

// Tries the first request. The caller must be in the read-side section of the queue pair.
post_result queue_pair::try_in_memory(const wqe &w)
{
    return ep_.local->post(w);
}

// Posts the request in the next entry of the queue. The caller must be in the read-side section of the queue pair.
void queue_pair::submit_wqe(attempt &direct)
{
    SOFTRDMA_ASSERT(!direct.is_possible || queue_.empty()); // no request overtakes another
    const wqe &w = *queue_.next_free();
    if (direct.is_possible && w.has_valid_length() && !w.info().local()) {
        direct.result = try_in_memory(w);
        if (direct.result == post_result::done)
            return queue_.complete_unqueued();
    }
    direct.is_possible = false;
    queue_.push();
}

int queue_pair::submit_batch(std::uint32_t count)
{
    const lock_guard lock(lock_);
    if (!accepts_sends())
        return EINVAL;
    if (count > queue_.available())
        return ENOMEM;
    attempt direct{may_attempt()};
    while (count > 0) {
        // One section for a WRITE and its FLUSH: a peer that removes memory waits until it has ended.
        const read_section section(receives_.shared().epoch);
        for (const std::uint32_t end = count - std::min(count, 2u); count > end; --count)
            submit_wqe(direct);
    }
    posted(direct);
    return 0;
}

int queue_pair::post_send(ibv_send_wr *wr, ibv_send_wr **bad)
{
    const auto batch_lock = wait_for_batch();
    const lock_guard lock(lock_);
    int error = accepts_sends() ? 0 : EINVAL;
    attempt direct{may_attempt()};
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = check_wr(*wr, ep_.cap);
        if (error == 0 && queue_.available() == 0)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            break;
        }
        queue_.next_free()->set(*wr);
        const read_section section(receives_.shared().epoch);
        submit_wqe(direct);
    }
    posted(direct);
    return error;
}

int queue_pair::post_bind(const ibv_mw_bind &bind, std::uint32_t key)
{
    const auto batch_lock = wait_for_batch();
    const lock_guard lock(lock_);
    if (!accepts_sends())
        return EINVAL;
    if (queue_.available() == 0)
        return ENOMEM;
    wqe &w = *queue_.next_free();
    w.begin(bind.wr_id, bind.send_flags, IBV_WR_BIND_MW);
    w.set_bind(key, bind.bind_info);
    queue_.push();
    posted({false});
    return 0;
}

int queue_pair::post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    const lock_guard lock(lock_);
    if (ep_.local != nullptr)
        ep_.local->on_receive_posted();
    int error = qp_base.srq != nullptr || ep_.attr.qp_state == IBV_QPS_RESET ? EINVAL : 0;
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = receives_.post(*wr, ep_.cap);
        if (error != 0) {
            *bad = wr;
            break;
        }
        ++receives_posted_;
    }
    if (ep_.attr.qp_state == IBV_QPS_ERR) {
        if (!delays_flush_)
            transport_->flush_receives();
    } else if (responds()) {
        transport_->on_receive_posted();
    }
    return error;
}

void notify_region_changed(std::uint32_t key)
{
    for (const auto &qp : number_table::instance().all())
        qp->on_region_changed(key);
}

void queue_pair::receive_available()
{
    const lock_guard lock(lock_);
    if (responds())
        transport_->on_receive_posted();
}

int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad)
{
    return or_no_memory(ENOMEM, [&] { return object_of(qp).post_send(wr, bad); });
}

int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    return or_no_memory(ENOMEM, [&] { return object_of(qp).post_receive(wr, bad); });
}

} // namespace softrdma

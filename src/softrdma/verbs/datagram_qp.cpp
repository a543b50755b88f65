// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/datagram_qp.hpp"
#include "verbs/number_table.hpp"

namespace softrdma
{

std::shared_ptr<datagram_qp> datagram_qp::create(
        ibv_pd *pd, ibv_qp_init_attr &attr, std::unique_ptr<datagram_path> path)
{
    grant_inline_space(attr.cap);
    auto qp = std::make_shared<datagram_qp>(pd, attr, std::move(path));
    try {
        number_table::instance().add_datagrams(qp);
        qp->join_queues(qp);
        qp->path_->listen(qp);
    } catch (...) {
        qp->leave_queues(qp);
        throw;
    }
    const lock_guard lock(qp->mutex_);
    qp->self_ = qp;
    cq_of(attr.recv_cq).network_users.fetch_add(1);
    return qp;
}

datagram_qp::datagram_qp(ibv_pd *pd, const ibv_qp_init_attr &attr, std::unique_ptr<datagram_path> path)
    : qp_object(pd, attr), queue_(qp_base, attr.cap, attr.sq_sig_all != 0), receives_(init_.cap.max_recv_wr),
      path_(std::move(path)), epoch_watch_(reader_list::instance().add(reader::own(epoch_)))
{
    qp_base.qp_num = qp_base.handle = path_->number();
    attr_.qp_state = attr_.cur_qp_state = IBV_QPS_RESET;
}

datagram_qp::~datagram_qp()
{
    reader_list::instance().remove(epoch_watch_);
}

void datagram_qp::destroy()
{
    path_->listen({});
    const lock_guard lock(mutex_);
    destroyed_ = true;
    reset();
    cq_of(qp_base.recv_cq).network_users.fetch_sub(1);
    leave_queues(weak_from_this());
    release_objects();
    self_.reset();
}

void datagram_qp::reset() noexcept
{
    set_state(IBV_QPS_RESET);
    queue_.clear();
    receives_.clear();
    discard_completions();
}

void datagram_qp::flush_receives()
{
    while (!receives_.empty())
        cq_of(qp_base.recv_cq).push(flushed_receive(qp_base.qp_num, receives_.pop().wr_id), false);
}

void datagram_qp::fail()
{
    if (state() == IBV_QPS_ERR)
        return;
    set_state(IBV_QPS_ERR);
    flush_sends();
    flush_receives();
    if (qp_base.srq != nullptr)
        raise_event(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void datagram_qp::completions_lost(ibv_cq *cq)
{
    const lock_guard lock(mutex_);
    if (destroyed_ || state() == IBV_QPS_RESET || state() == IBV_QPS_ERR)
        return;
    if (!has_lost_completions(cq))
        return;
    raise_event(IBV_EVENT_QP_FATAL);
    fail();
}

int datagram_qp::modify(const ibv_qp_attr &attr, int mask)
{
    const lock_guard lock(mutex_);
    if (const int error = check_change(IBV_QPT_UD, attr_, attr, mask); error != 0)
        return error;
    const ibv_qp_state from = state();
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    take_attributes(attr_, attr, mask);
    if ((mask & IBV_QP_SQ_PSN) != 0)
        next_psn_ = attr.sq_psn;
    if (to == IBV_QPS_RESET) {
        reset();
    } else if (to == IBV_QPS_ERR) {
        fail();
    } else {
        set_state(to);
        pump();
    }
    // Datagrams have left the queue when they are sent, so the queue is drained now.
    if (to == IBV_QPS_SQD && from == IBV_QPS_RTS && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 &&
            attr.en_sqd_async_notify != 0)
        raise_event(IBV_EVENT_SQ_DRAINED);
    return 0;
}

void datagram_qp::query(ibv_qp_attr &attr, ibv_qp_init_attr &init)
{
    const lock_guard lock(mutex_);
    attr = attr_;
    attr.cap = init_.cap;
    attr.path_mtu = IBV_MTU_4096;
    init = init_;
}

} // namespace softrdma

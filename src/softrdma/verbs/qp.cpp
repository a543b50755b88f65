// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp.hpp"
#include "verbs/number_table.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace softrdma
{

namespace
{

static_assert(offsetof(ibv_qp_ex, qp_base) == 0);

bool within_limits(const ibv_qp_init_attr &attr) noexcept
{
    const ibv_qp_cap &cap = attr.cap;
    return cap.max_send_wr <= limits::max_qp_wr && cap.max_recv_wr <= limits::max_qp_wr &&
           cap.max_send_sge <= limits::max_sge && cap.max_recv_sge <= limits::max_sge &&
           cap.max_inline_data <= limits::max_inline;
}

} // namespace

std::shared_ptr<queue_pair> queue_pair::create(ibv_pd *pd, ibv_qp_init_attr &attr, std::uint32_t number)
{
    if (attr.qp_type != IBV_QPT_RC) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (attr.send_cq == nullptr || attr.recv_cq == nullptr || !within_limits(attr)) {
        errno = EINVAL;
        return nullptr;
    }
    // As the kernel's software device does: programs rely on room for inline data that they never asked for.
    const auto room = attr.cap.max_send_sge * static_cast<std::uint32_t>(sizeof(ibv_sge));
    attr.cap.max_inline_data = std::max(attr.cap.max_inline_data, std::min<std::uint32_t>(room, limits::max_inline));
    auto qp = std::make_shared<queue_pair>(pd, attr);
    if (const int error = qp->ring_.create(qp->ep_.cap); error != 0) {
        qp->destroy();
        errno = error;
        return nullptr;
    }
    qp->ring_.shared().cq_bit = cq_of(attr.recv_cq).attach(qp->ring_);
    qp->ep_.self = qp;
    qp->qp_base.qp_num = number_table::instance().add(qp, number);
    if (qp->qp_base.qp_num == 0) {
        qp->destroy();
        errno = ENOMEM;
        return nullptr;
    }
    qp->ep_.managed = number == 0;
    cq_of(attr.send_cq).add_user(qp);
    cq_of(attr.recv_cq).add_user(qp);
    qp->qp_base.handle = qp->qp_base.qp_num;
    return qp;
}

std::shared_ptr<queue_pair> queue_pair::find(std::uint32_t number)
{
    return number_table::instance().find(number);
}

queue_pair::queue_pair(ibv_pd *pd, const ibv_qp_init_attr &attr)
    : native::qp_block{}, ring_(qp_base), queue_(qp_base, attr.cap, attr.sq_sig_all != 0),
      transport_(context_of(pd->context).transports.make(*this)), init_(attr)
{
    if (attr.srq != nullptr) // the receive queue's limits are those of the shared one
        init_.cap.max_recv_wr = init_.cap.max_recv_sge = 0;
    qp_base.context = pd->context;
    qp_base.qp_context = attr.qp_context;
    qp_base.pd = pd;
    qp_base.send_cq = attr.send_cq;
    qp_base.recv_cq = attr.recv_cq;
    qp_base.srq = attr.srq;
    qp_base.qp_type = attr.qp_type;
    qp_base.state = IBV_QPS_RESET;
    pthread_mutex_init(&qp_base.mutex, nullptr);
    pthread_cond_init(&qp_base.cond, nullptr);
    ep_.qp = &qp_base;
    ep_.cap = init_.cap;
    ep_.attr.qp_state = IBV_QPS_RESET;
    pd_of(pd).children.fetch_add(1);
    cq_of(attr.send_cq).users.fetch_add(1);
    cq_of(attr.recv_cq).users.fetch_add(1);
    cq_of(attr.send_cq).expect(ep_.cap.max_send_wr);
    cq_of(attr.recv_cq).expect(ep_.cap.max_recv_wr);
    if (attr.srq != nullptr)
        srq_of(attr.srq).users.fetch_add(1);
}

queue_pair::~queue_pair()
{
    pthread_cond_destroy(&qp_base.cond);
    pthread_mutex_destroy(&qp_base.mutex);
}

int queue_pair::destroy()
{
    if (const int error = shut_out_peer(); error != 0)
        return error;
    number_table::instance().remove(qp_base.qp_num);
    const std::lock_guard lock(lock_);
    transport_->abandon_answers();
    destroyed_ = true;
    start_connection(0);
    set_state(IBV_QPS_RESET);
    transport_->reset();
    ep_.local.reset();
    leave_network();
    cq_of(qp_base.recv_cq).detach(ring_);
    cq_of(qp_base.send_cq).remove_user(weak_from_this());
    cq_of(qp_base.recv_cq).remove_user(weak_from_this());
    queue_.forget_completions();
    cq_of(qp_base.send_cq).expect(-std::int64_t{ep_.cap.max_send_wr});
    cq_of(qp_base.recv_cq).expect(-std::int64_t{ep_.cap.max_recv_wr});
    pd_of(qp_base.pd).children.fetch_sub(1);
    cq_of(qp_base.send_cq).users.fetch_sub(1);
    cq_of(qp_base.recv_cq).users.fetch_sub(1);
    if (qp_base.srq != nullptr)
        srq_of(qp_base.srq).users.fetch_sub(1);
    return 0;
}

void queue_pair::retry()
{
    const std::lock_guard lock(lock_);
    if (sends_requests())
        settle(transport_->resume());
}

bool queue_pair::sending()
{
    const std::lock_guard lock(lock_);
    return !queue_.empty();
}

void queue_pair::fail()
{
    if (ep_.attr.qp_state == IBV_QPS_ERR)
        return;
    transport_->abandon_answers();
    set_state(IBV_QPS_ERR);
    transport_->flush_sends();
    flush_receives();
    if (qp_base.srq != nullptr)
        tell(IBV_EVENT_QP_LAST_WQE_REACHED);
}

// A peer that is inside an operation may still place or complete a message in a receive, which is not the program's
// again before that.
void queue_pair::flush_receives()
{
    constexpr std::chrono::microseconds first_pause{100};
    if (peer_ != nullptr) {
        delays_flush_ = std::make_shared<local::operations_in_progress>(std::vector{peer_->reader_of_peer()});
        if (!delays_flush_->ended())
            return flush_receives_later(first_pause);
    }
    delays_flush_.reset();
    transport_->flush_receives();
}

void queue_pair::flush_receives_later(std::chrono::microseconds pause)
{
    static constexpr std::chrono::microseconds longest_pause{100000};
    const auto look_again = [weak = weak_from_this(), operations = delays_flush_, pause] {
        const auto qp = weak.lock();
        if (qp == nullptr)
            return;
        const std::lock_guard lock(qp->lock_);
        if (qp->delays_flush_ != operations) // it was reset meanwhile
            return;
        if (!operations->ended())
            return qp->flush_receives_later(std::min(2 * pause, longest_pause));
        qp->delays_flush_.reset();
        qp->transport_->flush_receives();
    };
    context_of(qp_base.context).mover.defer(look_again, pause);
}

void queue_pair::notice_drained()
{
    if (!tell_drained_ || ep_.attr.qp_state != IBV_QPS_SQD || transport_->busy())
        return;
    tell_drained_ = false;
    tell(IBV_EVENT_SQ_DRAINED);
}

void queue_pair::tell(ibv_event_type type)
{
    ibv_async_event event{};
    event.element.qp = &qp_base;
    event.event_type = type;
    context_of(qp_base.context).async.push(event);
}

void queue_pair::completions_lost(ibv_cq *cq)
{
    const std::lock_guard lock(lock_);
    if (destroyed_ || ep_.attr.qp_state == IBV_QPS_RESET || ep_.attr.qp_state == IBV_QPS_ERR)
        return;
    if ((qp_base.send_cq != cq && qp_base.recv_cq != cq) || !cq_of(cq).overflowed())
        return; // a new queue may have the address of the old one
    tell(IBV_EVENT_QP_FATAL);
    fail();
}

void queue_pair::peer_broke_protocol()
{
    const std::lock_guard lock(lock_);
    if (!answers())
        return;
    tell(IBV_EVENT_QP_REQ_ERR);
    fail();
}

void queue_pair::drain_events()
{
    const unsigned reported = context_of(qp_base.context).async.forget(&qp_base);
    pthread_mutex_lock(&qp_base.mutex);
    while (qp_base.events_completed != reported)
        pthread_cond_wait(&qp_base.cond, &qp_base.mutex);
    pthread_mutex_unlock(&qp_base.mutex);
}

bool queue_pair::settle(outcome o)
{
    if (o == outcome::broken)
        fail();
    notice_drained();
    return o != outcome::violation;
}

void queue_pair::path_lost()
{
    const std::lock_guard lock(lock_);
    ep_.path_lost = true;
    if (answers() && transport_->fail_first(IBV_WC_RETRY_EXC_ERR))
        fail();
}

void queue_pair::limit_answers()
{
    const std::lock_guard lock(lock_);
    ep_.limits_answers = true;
}

std::chrono::microseconds queue_pair::retry_timeout()
{
    const std::lock_guard lock(lock_);
    return ep_.retry_timeout();
}

} // namespace softrdma

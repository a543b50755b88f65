// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp.hpp"
#include "verbs/number_table.hpp"
#include "verbs/transition.hpp"

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
    : native::qp_block{}, ring_(qp_base), queue_(qp_base, attr.cap, attr.sq_sig_all != 0), requester_(ep_, queue_),
      responder_(ep_, ring_), init_(attr)
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
    responder_.abandon();
    destroyed_ = true;
    start_connection(0);
    set_state(IBV_QPS_RESET);
    requester_.reset();
    responder_.reset();
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

// Before a reset or the end: what the peer has begun with our memory it finishes first. It may be stopped, so no lock
// is held meanwhile. 0 or EBUSY.
int queue_pair::shut_out_peer()
{
    std::optional<local::operations_in_progress> operations;
    {
        const std::lock_guard lock(lock_);
        if (peer_ == nullptr)
            return 0;
        responder_.abandon();
        shut_out_ = true;
        publish_attributes();
        operations.emplace(std::vector{peer_->reader_of_peer()});
    }
    const bool ended = operations->ended_within(local::longest_operation);
    const std::lock_guard lock(lock_);
    shut_out_ = ended;
    if (!ended)
        fail();
    return ended ? 0 : EBUSY;
}

// Whatever the peer of an earlier one still writes is not meant for the peer of this one, and never read.
void queue_pair::start_connection(std::uint64_t number) noexcept
{
    connection_ = number;
    peer_.reset();
    delays_flush_.reset();
    shut_out_ = false;
}

void queue_pair::set_state(ibv_qp_state to) noexcept
{
    ep_.attr.qp_state = ep_.attr.cur_qp_state = to;
    __atomic_store_n(&qp_base.state, to, __ATOMIC_RELAXED);
    publish_attributes();
}

void queue_pair::publish_attributes() noexcept
{
    if (!ring_.valid())
        return;
    local::qp_block &shared = ring_.shared();
    shared.access.store(ep_.attr.qp_access_flags, std::memory_order_relaxed);
    shared.rnr_timer.store(ep_.attr.min_rnr_timer, std::memory_order_relaxed);
    shared.state.store(local::state_word(connection_, answers()), std::memory_order_seq_cst);
}

bool queue_pair::answers() const noexcept
{
    const ibv_qp_state s = ep_.attr.qp_state;
    return !destroyed_ && !shut_out_ && (s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD);
}

int queue_pair::check(const ibv_qp_attr &attr, int mask) const noexcept
{
    const ibv_qp_state from = ep_.attr.qp_state;
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from)
        return EINVAL;
    return may_change(from, to, mask) && in_range(attr, mask) ? 0 : EINVAL;
}

int queue_pair::modify(const ibv_qp_attr &attr, int mask)
{
    if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET)
        return reset(attr, mask);
    const std::lock_guard lock(lock_);
    if (const int error = check(attr, mask); error != 0)
        return error;
    const ibv_qp_state from = ep_.attr.qp_state;
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    enter(attr, mask);
    if (to == IBV_QPS_ERR) {
        fail();
        return 0;
    }
    if (to == IBV_QPS_RTR)
        ring_.set_peer(ep_.attr.dest_qp_num);
    set_state(to);
    if (to == IBV_QPS_RTR && from == IBV_QPS_INIT) {
        responder_.start(ep_.attr.rq_psn);
    } else if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        requester_.start(ep_.attr.sq_psn);
    } else if (to == IBV_QPS_RTS) {
        settle(requester_.pump());
    } else if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
        tell_drained_ = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && attr.en_sqd_async_notify != 0;
        settle(requester_.pump());
    }
    return 0;
}

int queue_pair::reset(const ibv_qp_attr &attr, int mask)
{
    {
        const std::lock_guard lock(lock_);
        if (const int error = check(attr, mask); error != 0)
            return error;
    }
    if (const int error = shut_out_peer(); error != 0)
        return error;
    const std::lock_guard lock(lock_);
    start_connection(0);
    set_state(IBV_QPS_RESET);
    requester_.reset();
    responder_.reset();
    ep_.local.reset();
    ep_.transport_pending = false;
    return 0;
}

void queue_pair::enter(const ibv_qp_attr &attr, int mask)
{
    const auto take = [&](int bit, auto member) {
        if ((mask & bit) != 0)
            ep_.attr.*member = attr.*member;
    };
    take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
    take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
    take(IBV_QP_PORT, &ibv_qp_attr::port_num);
    take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
    take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
    take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
    take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
    take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
    take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
    take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
    take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
    take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
    take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
    take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

void queue_pair::query(ibv_qp_attr &attr, ibv_qp_init_attr &init)
{
    const std::lock_guard lock(lock_);
    attr = ep_.attr;
    attr.cap = ep_.cap;
    attr.sq_draining = ep_.attr.qp_state == IBV_QPS_SQD && requester_.busy();
    init = init_;
}

bool queue_pair::accepts_sends() const noexcept
{
    const ibv_qp_state s = ep_.attr.qp_state;
    return s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_ERR;
}

void queue_pair::posted()
{
    if (ep_.attr.qp_state == IBV_QPS_ERR)
        requester_.flush();
    else if (ep_.attr.qp_state == IBV_QPS_RTS)
        settle(requester_.pump());
    if (ep_.attr.qp_state == IBV_QPS_RTS && ep_.path_lost && requester_.fail_first(IBV_WC_RETRY_EXC_ERR))
        fail();
}

// For requests that may be executed before they are queued; NULL if none may.
request_path *queue_pair::path_at_once() const noexcept
{
    const bool may = queue_.empty() && ep_.attr.qp_state == IBV_QPS_RTS && !ep_.path_lost && !fault::active() &&
                     tap::current() == nullptr;
    return may ? ep_.local.get() : nullptr;
}

int queue_pair::post_together(std::uint32_t count)
{
    const std::lock_guard lock(lock_);
    if (!accepts_sends())
        return EINVAL;
    if (count > queue_.room())
        return ENOMEM;
    request_path *at_once = path_at_once();
    while (count > 0) {
        // One section for a WRITE and its FLUSH: a peer that takes memory away waits until it has ended.
        const local::read_section section(ring_.shared().epoch);
        for (const std::uint32_t end = count - std::min(count, 2u); count > end; --count)
            at_once = requester_.post(at_once) ? at_once : nullptr;
    }
    queue_.empty() ? queue_.rewind() : posted();
    return 0;
}

int queue_pair::post_send(ibv_send_wr *wr, ibv_send_wr **bad)
{
    // Who has started a batch is making requests where these are to be made.
    const auto alone = batch_ != nullptr ? std::unique_lock(*batch_) : std::unique_lock<post_batch>();
    const std::lock_guard lock(lock_);
    int error = accepts_sends() ? 0 : EINVAL;
    request_path *at_once = path_at_once();
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = check_wr(*wr, ep_.cap);
        if (error == 0 && queue_.room() == 0)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            break;
        }
        queue_.place()->set(*wr);
        const local::read_section section(ring_.shared().epoch);
        at_once = requester_.post(at_once) ? at_once : nullptr;
    }
    queue_.empty() ? queue_.rewind() : posted();
    return error;
}

int queue_pair::post_receive(ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    const std::lock_guard lock(lock_);
    if (ep_.local != nullptr)
        ep_.local->receive_is_posted();
    int error = qp_base.srq != nullptr || ep_.attr.qp_state == IBV_QPS_RESET ? EINVAL : 0;
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = responder_.post(*wr);
        if (error != 0) {
            *bad = wr;
            break;
        }
    }
    if (ep_.attr.qp_state == IBV_QPS_ERR) {
        if (delays_flush_ == nullptr)
            responder_.flush();
    } else if (answers()) {
        responder_.announce_receive();
    }
    return error;
}

void queue_pair::receive_available()
{
    const std::lock_guard lock(lock_);
    if (answers())
        responder_.announce_receive();
}

void queue_pair::retry()
{
    const std::lock_guard lock(lock_);
    if (answers() && ep_.attr.qp_state != IBV_QPS_RTR)
        settle(requester_.resume());
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
    responder_.abandon();
    set_state(IBV_QPS_ERR);
    requester_.flush();
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
    responder_.flush();
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
        qp->responder_.flush();
    };
    context_of(qp_base.context).mover.defer(look_again, pause);
}

void queue_pair::notice_drained()
{
    if (!tell_drained_ || ep_.attr.qp_state != IBV_QPS_SQD || requester_.busy())
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

bool queue_pair::receive(const packet &p)
{
    if (is_request(p.op))
        return receive_request_packet(p);
    const std::lock_guard lock(lock_);
    if (p.op == opcode::ack_request) {
        answers() ? responder_.acknowledge_executed() : refuse(p);
        return true;
    }
    if (!answers() || ep_.attr.qp_state == IBV_QPS_RTR)
        return true;
    return settle(p.op == opcode::receive_posted ? requester_.resume() : requester_.answer(p));
}

void queue_pair::fill_place(
        const packet &begun, std::size_t bytes, const std::function<void(std::span<std::byte>)> &fill)
{
    const std::lock_guard lock(lock_);
    gathered place;
    if (!answers() || pmem::power_cut::armed())
        return;
    if (is_send(begun.op) ? responder_.find_place(begun, bytes, place) : requester_.find_place(begun, bytes, place))
        fill({static_cast<std::byte *>(place.pieces[0].iov_base), place.pieces[0].iov_len});
}

// This side will answer nothing more.
void queue_pair::refuse(const packet &p)
{
    ep_.transmit({.op = opcode::acknowledge, .psn = p.psn, .syndrome = syndrome::unresponsive});
}

bool queue_pair::receive_request_packet(const packet &p)
{
    {
        const std::lock_guard lock(lock_);
        if (!answers()) {
            if (is_last(p.op) || is_round_trip(p.op))
                refuse(p);
            return true;
        }
        const auto admitted = responder_.admit(p, weak_from_this());
        if (admitted != responder::admission::execute)
            return admitted == responder::admission::ignore;
    }
    const std::uint8_t answer = responder_.execute(p);
    const std::lock_guard lock(lock_);
    return !answers() || settle(responder_.finish(p, answer));
}

void queue_pair::received_all()
{
    const std::lock_guard lock(lock_);
    if (answers())
        responder_.release();
}

void queue_pair::path_writable()
{
    const std::lock_guard lock(lock_);
    if (!answers())
        return;
    responder_.release();
    settle(requester_.pump());
}

void queue_pair::path_lost()
{
    const std::lock_guard lock(lock_);
    ep_.path_lost = true;
    if (answers() && requester_.fail_first(IBV_WC_RETRY_EXC_ERR))
        fail();
}

void queue_pair::timer_expired()
{
    const std::lock_guard lock(lock_);
    if (answers() && ep_.attr.qp_state != IBV_QPS_RTR)
        settle(requester_.timed_out());
}

void queue_pair::limit_answers()
{
    const std::lock_guard lock(lock_);
    ep_.limits_answers = true;
}

void queue_pair::answer_timer_expired()
{
    const std::lock_guard lock(lock_);
    if (answers() && ep_.attr.qp_state != IBV_QPS_RTR)
        settle(requester_.answer_timer_expired());
}

std::chrono::microseconds queue_pair::retry_timeout()
{
    const std::lock_guard lock(lock_);
    return ep_.retry_timeout();
}

} // namespace softrdma

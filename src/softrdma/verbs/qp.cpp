// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp.hpp"
#include "base/or_no_memory.hpp"
#include "base/log.hpp"
#include "base/assert.hpp"
#include "verbs/number_table.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace softrdma
{

std::shared_ptr<queue_pair> queue_pair::create(
        ibv_pd *pd, ibv_qp_init_attr &attr, std::uint32_t number, const ring_start &start)
{
    int error = attr.qp_type != IBV_QPT_RC ? EOPNOTSUPP : check_limits(attr);
    std::shared_ptr<queue_pair> qp;
    if (error == 0) {
        grant_inline_space(attr.cap);
        try {
            qp = std::make_shared<queue_pair>(pd, attr, start);
            error = qp->open(number);
        } catch (const std::bad_alloc &) {
            error = ENOMEM;
        }
    }
    if (error == 0)
        return qp;
    if (qp != nullptr)
        qp->destroy();
    return fail_with(nullptr, error);
}

// Publishes the queue pair. After a failure, destroy() reverts it.
int queue_pair::open(std::uint32_t number)
{
    if (const int error = receives_.create(init_.cap); error != 0)
        return error;
    receives_.shared().cq_bit = cq_of(qp_base.recv_cq).attach(receives_);
    {
        const lock_guard lock(lock_);
        ep_.self = weak_from_this();
        ep_.managed = number == 0;
        peer_operations_.prepare();
        recheck_call_ = prepare(&queue_pair::recheck_flush);
        ep_.retry_call = prepare(&queue_pair::retry_first);
        receives_.prepare_report(prepare(&queue_pair::peer_broke_protocol));
    }
    join_queues(weak_from_this());
    qp_base.qp_num = number_table::instance().add(shared_from_this(), number);
    qp_base.handle = qp_base.qp_num;
    return qp_base.qp_num == 0 ? ENOMEM : 0;
}

queue_pair::queue_pair(ibv_pd *pd, const ibv_qp_init_attr &attr, const ring_start &start)
    : qp_object(pd, attr), receives_(qp_base, start), queue_(qp_base, attr.cap, attr.sq_sig_all != 0),
      transport_(context_of(pd->context).make_transport(*this))
{
    ep_.qp = &qp_base;
    ep_.cap = init_.cap;
    ep_.attr.qp_state = IBV_QPS_RESET;
}

int queue_pair::destroy()
{
    if (const int error = exclude_peer(); error != 0)
        return error;
    number_table::instance().remove(qp_base.qp_num);
    const lock_guard lock(lock_);
    SOFTRDMA_ASSERT(!destroyed_);
    transport_->abandon_responses();
    destroyed_ = true;
    start_connection(0);
    set_state(IBV_QPS_RESET);
    transport_->reset();
    ep_.local.reset();
    leave_network();
    cq_of(qp_base.recv_cq).detach(receives_);
    leave_queues(weak_from_this());
    discard_completions();
    release_objects();
    return 0;
}

reserve::prepared_call queue_pair::prepare(void (queue_pair::*function)(reserve::prepared_call &))
{
    return reserve::prepared_call([weak = weak_from_this(), function](reserve::prepared_call &own) {
        if (const auto qp = weak.lock())
            ((*qp).*function)(own);
    });
}

bool stalled_senders::retry_all()
{
    std::vector<std::weak_ptr<queue_pair>> senders;
    {
        const lock_guard lock(lock_);
        senders.swap(senders_);
        any_.store(false, std::memory_order_relaxed);
    }
    for (const auto &weak : senders) {
        if (const auto sender = weak.lock())
            sender->retry();
    }
    return !senders.empty();
}

void queue_pair::retry()
{
    const lock_guard lock(lock_);
    if (sends_requests())
        apply_outcome(transport_->resume());
}

void queue_pair::retry_first(reserve::prepared_call &own)
{
    const lock_guard lock(lock_);
    ep_.retry_call = std::move(own);
    try {
        if (sends_requests())
            apply_outcome(transport_->resume());
    } catch (const std::bad_alloc &) {
        ep_.try_again_later(false);
    }
}

bool queue_pair::has_unread_completions(const event_waiter &waiter)
{
    const lock_guard lock(lock_);
    if (destroyed_)
        return false;
    const std::uint32_t number = qp_base.qp_num;
    return delays_flush_ || cq_of(qp_base.recv_cq).has_unread(number, &receives_, waiter) ||
           (qp_base.send_cq != qp_base.recv_cq && cq_of(qp_base.send_cq).has_unread(number, nullptr, waiter));
}

void queue_pair::fail(const char *reason)
{
    if (ep_.attr.qp_state == IBV_QPS_ERR)
        return;
    if (reason != nullptr)
        log::write(log::level::info, "queue pair %u: error state: %s", qp_base.qp_num, reason);
    SOFTRDMA_ASSERT(!destroyed_);
    transport_->abandon_responses();
    set_state(IBV_QPS_ERR);
    transport_->flush_sends();
    flush_receives();
}

// Receives are returned to the program after operations of the peer, which may still place a message, have ended.
void queue_pair::flush_receives() noexcept
{
    constexpr std::chrono::microseconds first_pause{100};
    if (peer_ != nullptr)
        peer_operations_.restart(peer_->reader_of_peer());
    delays_flush_ = true;
    flush_pause_ = first_pause;
    continue_flush();
}

void queue_pair::continue_flush()
{
    constexpr std::chrono::microseconds max_pause{100000};
    SOFTRDMA_ASSERT(ep_.attr.qp_state == IBV_QPS_ERR);
    if (peer_operations_.ended()) {
        delays_flush_ = false;
        transport_->flush_receives();
        if (qp_base.srq != nullptr)
            raise_event(IBV_EVENT_QP_LAST_WQE_REACHED);
    } else {
        context_of(qp_base.context).engine.defer(std::move(recheck_call_), flush_pause_);
        flush_pause_ = std::min(2 * flush_pause_, max_pause);
    }
}

void queue_pair::recheck_flush(reserve::prepared_call &own)
{
    const lock_guard lock(lock_);
    recheck_call_ = std::move(own);
    if (delays_flush_) // otherwise it was reset in the meantime
        continue_flush();
}

void queue_pair::notice_drained()
{
    if (!drain_event_pending_ || ep_.attr.qp_state != IBV_QPS_SQD || transport_->busy())
        return;
    drain_event_pending_ = false;
    raise_event(IBV_EVENT_SQ_DRAINED);
}

void queue_pair::completions_lost(ibv_cq *cq)
{
    const lock_guard lock(lock_);
    if (destroyed_ || ep_.attr.qp_state == IBV_QPS_RESET || ep_.attr.qp_state == IBV_QPS_ERR)
        return;
    if (!has_lost_completions(cq))
        return;
    raise_event(IBV_EVENT_QP_FATAL);
    fail("completion queue overflowed");
}

void queue_pair::peer_broke_protocol(reserve::prepared_call &own)
{
    const lock_guard lock(lock_);
    if (destroyed_) // the completion queue may be destroyed, too
        return;
    receives_.prepare_report(std::move(own));
    if (!responds())
        return;
    raise_event(IBV_EVENT_QP_REQ_ERR);
    fail("message of the peer in shared memory is invalid or does not fit its receive");
}

bool queue_pair::apply_outcome(outcome o)
{
    while (o == outcome::proceed && transport_->awaits_memory()) {
        post_result result{};
        {
            const read_section section(receives_.shared().epoch);
            result = try_in_memory(queue_.front());
        }
        o = transport_->tried_in_memory(result);
    }
    if (o == outcome::broken)
        fail("request failed");
    notice_drained();
    return o != outcome::violation;
}

void queue_pair::path_lost(const packet_path *path)
{
    const lock_guard lock(lock_);
    if (path != ep_.path.get())
        return;
    if (path == nullptr)
        log::write(log::level::warn,
                "queue pair %u: no connection to queue pair %u within the retry limit (check that the peer is in RTR, "
                "its "
                "number and its GID)",
                qp_base.qp_num, ep_.attr.dest_qp_num);
    ep_.path_lost = true;
    if (!destroyed_) { // otherwise the shared receive queue may be destroyed
        receives_.return_lent(lent::unused);
        transport_->drop_message();
    }
    if (responds() && transport_->fail_first(IBV_WC_RETRY_EXC_ERR))
        fail("connection lost with requests in flight");
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/read_section.hpp"
#include "probe.hpp"
#include "verbs/qp.hpp"
#include "verbs/qp_object.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace softrdma
{

// Excludes the peer before a reset or the destruction, and waits until it has finished its operations on local memory.
// The peer may be stopped, so no lock is held while waiting. Returns 0 or EBUSY.
int queue_pair::exclude_peer()
{
    std::optional<grace_period> operations;
    {
        const lock_guard lock(lock_);
        transport_->abandon_responses();
        peer_excluded_ = true;
        publish_attributes();
        if (peer_ != nullptr)
            operations.emplace(peer_->reader_of_peer());
    }
    const bool ended =
            (!operations || operations->ended_within(grace_limit)) && becomes_true_within(grace_limit, [this] {
                const lock_guard lock(lock_);
                return !transport_->is_executing();
            });
    const lock_guard lock(lock_);
    peer_excluded_ = ended;
    if (!ended) {
        log::write(log::level::warn,
                "queue pair %u: busy: the peer is stopped inside an operation (continue or end it)", qp_base.qp_num);
        fail(nullptr);
    }
    return ended ? 0 : EBUSY;
}

// Starts a connection. Later stores by the peer of an earlier connection are never read by this one.
void queue_pair::start_connection(std::uint64_t number) noexcept
{
    SOFTRDMA_ASSERT(number == 0 || number != connection_); // numbers are unique
    connection_ = number;
    peer_.reset();
    delays_flush_ = false;
    peer_operations_.clear();
    peer_excluded_ = false;
}

void queue_pair::set_state(ibv_qp_state to) noexcept
{
    SOFTRDMA_ASSERT(to == IBV_QPS_RESET || !destroyed_);
    ep_.attr.qp_state = ep_.attr.cur_qp_state = to;
    show_state(to);
    publish_attributes();
    STATIC_PROBE(softrdma, qp_state, 3, qp_base.qp_num, ep_.attr.qp_state, ep_.attr.dest_qp_num);
}

void queue_pair::publish_attributes() noexcept
{
    if (!receives_.valid())
        return;
    softrdma::qp_block &shared = receives_.shared();
    shared.access.store(ep_.attr.qp_access_flags, std::memory_order_relaxed);
    shared.rnr_timer.store(ep_.attr.min_rnr_timer, std::memory_order_relaxed);
    shared.state.store(state_word(connection_, responds()), std::memory_order_seq_cst);
}

int queue_pair::modify(const ibv_qp_attr &attr, int mask)
{
    if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET)
        return reset(attr, mask);
    const lock_guard lock(lock_);
    if (const int error = check_change(IBV_QPT_RC, ep_.attr, attr, mask); error != 0) {
        log::write(log::level::info, "queue pair %u: ibv_modify_qp rejected: state %d to %d, mask %#x: %s",
                qp_base.qp_num, static_cast<int>(ep_.attr.qp_state),
                static_cast<int>((mask & IBV_QP_STATE) != 0 ? attr.qp_state : ep_.attr.qp_state),
                static_cast<unsigned>(mask), strerror(error));
        return error;
    }
    const ibv_qp_state from = ep_.attr.qp_state;
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    take_attributes(ep_.attr, attr, mask);
    if (to == IBV_QPS_ERR) {
        fail(nullptr);
        return 0;
    }
    if (to == IBV_QPS_RTR)
        receives_.set_peer(ep_.attr.dest_qp_num);
    set_state(to);
    if (to == IBV_QPS_RTR && from == IBV_QPS_INIT) {
        transport_->start_responding(ep_.attr.rq_psn);
    } else if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        transport_->start_sending(ep_.attr.sq_psn);
    } else if (to == IBV_QPS_RTS) {
        apply_outcome(transport_->execute());
    } else if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
        drain_event_pending_ = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && attr.en_sqd_async_notify != 0;
        apply_outcome(transport_->execute());
    }
    return 0;
}

int queue_pair::reset(const ibv_qp_attr &attr, int mask)
{
    {
        const lock_guard lock(lock_);
        if (const int error = check_change(IBV_QPT_RC, ep_.attr, attr, mask); error != 0)
            return error;
    }
    if (const int error = exclude_peer(); error != 0)
        return error;
    const lock_guard lock(lock_);
    start_connection(0);
    set_state(IBV_QPS_RESET);
    // A path of the connection manager outlives a reset, and so would the responses in flight: it is cut.
    if (!transport_->reset() && ep_.managed && ep_.path != nullptr) {
        ep_.path_lost = true;
        ep_.path->cut();
    }
    discard_completions();
    ep_.local.reset();
    ep_.transport_pending = false;
    return 0;
}

void queue_pair::query(ibv_qp_attr &attr, ibv_qp_init_attr &init)
{
    const lock_guard lock(lock_);
    attr = ep_.attr;
    attr.cap = ep_.cap;
    attr.sq_draining = ep_.attr.qp_state == IBV_QPS_SQD && transport_->busy();
    init = init_;
}

void queue_pair::attach(std::shared_ptr<packet_path> path)
{
    const lock_guard lock(lock_);
    if (!destroyed_)
        ep_.path = std::move(path);
    ep_.path_lost = false;
    join_network();
}

void queue_pair::expect_path()
{
    const lock_guard lock(lock_);
    join_network();
}

void queue_pair::join_network() noexcept
{
    if (destroyed_ || std::exchange(on_network_, true))
        return;
    cq_of(qp_base.send_cq).network_users.fetch_add(1);
    cq_of(qp_base.recv_cq).network_users.fetch_add(1);
}

void queue_pair::leave_network() noexcept
{
    if (!std::exchange(on_network_, false))
        return;
    cq_of(qp_base.send_cq).network_users.fetch_sub(1);
    cq_of(qp_base.recv_cq).network_users.fetch_sub(1);
}

bool queue_pair::describe(const connection_ends &ends, shm_address &h)
{
    const lock_guard lock(lock_);
    if (destroyed_)
        return false;
    start_connection(context_of(qp_base.context).memory.next_serial());
    receives_.shared().ends = ends;
    publish_attributes();
    h.qp_offset = receives_.memory().offset;
    h.qp_size = receives_.memory().size;
    h.connection = connection_;
    h.first_receive = receives_.position();
    h.completion_fd = cq_of(qp_base.recv_cq).event_descriptor();
    return true;
}

void queue_pair::expect(std::shared_ptr<shm_peer> peer)
{
    const lock_guard lock(lock_);
    if (destroyed_ || connection_ == 0)
        return;
    peer_ = std::move(peer);
    if (peer_ != nullptr)
        receives_.borrow();
}

void queue_pair::suspend()
{
    const lock_guard lock(lock_);
    ep_.transport_pending = true;
}

void queue_pair::select_transport(const std::shared_ptr<shm_peer> &peer, no_shm_reason reason)
{
    const lock_guard lock(lock_);
    ep_.no_shm_reason = reason;
    ep_.transport_pending = false;
    if (destroyed_)
        return;
    if (peer == nullptr) {
        peer_.reset();
        receives_.return_lent(lent::all);
    } else if (peer == peer_ && ep_.path != nullptr) { // otherwise the queue pair was reset in between
        ep_.local = peer->open_path(receives_.shared(), qp_base.pd);
        log::write(log::level::debug, "queue pair %u: requests are executed in the memory of queue pair %u%s",
                qp_base.qp_num, ep_.attr.dest_qp_num,
                ep_.local->needs_network_for_private_memory() ? " (mapped files only)" : "");
        if (!ep_.local->needs_network_for_private_memory())
            leave_network();
    }
    if (ep_.attr.qp_state == IBV_QPS_RTS)
        apply_outcome(transport_->execute());
}

} // namespace softrdma

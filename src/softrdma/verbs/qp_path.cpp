// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "verbs/qp.hpp"

#include <utility>

namespace softrdma
{

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

bool queue_pair::has_path()
{
    const lock_guard lock(lock_);
    return ep_.path != nullptr;
}

} // namespace softrdma

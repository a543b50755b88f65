// SPDX-License-Identifier: BSD-3-Clause
// Post functions of a queue pair.
#include "base/assert.hpp"
#include "verbs/qp.hpp"
#include "fault/rules.hpp"
#include "verbs/number_table.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma
{

bool queue_pair::accepts_sends() const noexcept
{
    const ibv_qp_state s = ep_.attr.qp_state;
    return s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_ERR;
}

void queue_pair::posted()
{
    if (ep_.attr.qp_state == IBV_QPS_ERR)
        transport_->flush_sends();
    else if (ep_.attr.qp_state == IBV_QPS_RTS)
        apply_outcome(transport_->execute());
    if (ep_.attr.qp_state == IBV_QPS_RTS && ep_.path_lost && transport_->fail_first(IBV_WC_RETRY_EXC_ERR))
        fail("request posted after the connection was lost");
}

// Returns the path for requests that may be executed before they are queued, or NULL.
request_path *queue_pair::direct_path() const noexcept
{
    const bool may = queue_.empty() && ep_.attr.qp_state == IBV_QPS_RTS && !ep_.path_lost && !fault::active() &&
                     tap::current() == nullptr;
    return may ? ep_.local.get() : nullptr;
}

// Posts the request that was built in the next entry of the queue. Executes it on `direct` if that is not NULL and the
// queue is empty; returns true in that case. The caller must be inside a section of the local side.
bool queue_pair::submit_wqe(request_path *direct)
{
    SOFTRDMA_ASSERT(direct == nullptr || queue_.empty()); // no request overtakes another
    wqe &w = *queue_.place();
    // Failures and requests that cannot be executed directly use the queue.
    if (direct == nullptr || !w.has_valid_length() || direct->post(w) != post_result::done) {
        queue_.push();
        return false;
    }
    queue_.pass();
    return true;
}

void queue_pair::open_batch()
{
    const lock_guard lock(lock_);
    SOFTRDMA_ASSERT(batch_ == nullptr);
    batch_ = std::make_unique<post_batch>(queue_, init_.cap);
}

int queue_pair::submit_batch(std::uint32_t count)
{
    const lock_guard lock(lock_);
    if (!accepts_sends())
        return EINVAL;
    if (count > queue_.available())
        return ENOMEM;
    request_path *direct = direct_path();
    while (count > 0) {
        // One section for a WRITE and its FLUSH: a peer that removes memory waits until it has ended.
        const read_section section(receives_.shared().epoch);
        for (const std::uint32_t end = count - std::min(count, 2u); count > end; --count)
            direct = submit_wqe(direct) ? direct : nullptr;
    }
    queue_.empty() ? queue_.rewind() : posted();
    return 0;
}

int queue_pair::post_send(ibv_send_wr *wr, ibv_send_wr **bad)
{
    // An open ibv_wr_start() batch owns the next entries of the send queue: wait for it.
    const auto alone = batch_ != nullptr ? std::unique_lock(*batch_) : std::unique_lock<post_batch>();
    const lock_guard lock(lock_);
    int error = accepts_sends() ? 0 : EINVAL;
    request_path *direct = direct_path();
    for (; wr != nullptr; wr = wr->next) {
        if (error == 0)
            error = check_wr(*wr, ep_.cap);
        if (error == 0 && queue_.available() == 0)
            error = ENOMEM;
        if (error != 0) {
            *bad = wr;
            break;
        }
        queue_.place()->set(*wr);
        const read_section section(receives_.shared().epoch);
        direct = submit_wqe(direct) ? direct : nullptr;
    }
    queue_.empty() ? queue_.rewind() : posted();
    return error;
}

int queue_pair::post_bind(const ibv_mw_bind &bind, std::uint32_t key)
{
    const auto alone = batch_ != nullptr ? std::unique_lock(*batch_) : std::unique_lock<post_batch>();
    const lock_guard lock(lock_);
    if (!accepts_sends())
        return EINVAL;
    if (queue_.available() == 0)
        return ENOMEM;
    wqe &w = *queue_.place();
    w.begin(bind.wr_id, bind.send_flags, IBV_WR_BIND_MW);
    w.set_bind(key, bind.bind_info);
    queue_.push();
    posted();
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
        if (delays_flush_ == nullptr)
            transport_->flush_receives();
    } else if (answers()) {
        transport_->on_receive_posted();
    }
    return error;
}

void queue_pair::on_region_changed(std::uint32_t key)
{
    const lock_guard lock(lock_);
    receives_.on_region_changed(key);
}

void notify_region_changed(std::uint32_t key)
{
    for (const auto &qp : number_table::instance().all())
        qp->on_region_changed(key);
}

void queue_pair::receive_available()
{
    const lock_guard lock(lock_);
    if (answers())
        transport_->on_receive_posted();
}

} // namespace softrdma

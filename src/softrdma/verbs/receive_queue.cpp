// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/receive_queue.hpp"
#include "verbs/qp.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma
{

int receive_request::from(const ibv_recv_wr &wr, std::uint32_t max_sge, receive_request &out) noexcept
{
    if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > max_sge)
        return EINVAL;
    out.wr_id = wr.wr_id;
    out.sge_count = wr.num_sge;
    std::copy_n(wr.sg_list, wr.num_sge, out.sges.begin());
    return 0;
}

shared_receive_queue::shared_receive_queue(ibv_pd *owner, const ibv_srq_init_attr &attr) : ibv_srq{}, attr_(attr.attr)
{
    context = owner->context;
    srq_context = attr.srq_context;
    pd = owner;
    pthread_mutex_init(&mutex, nullptr);
    pthread_cond_init(&cond, nullptr);
    pd_of(owner).children.fetch_add(1);
}

shared_receive_queue::~shared_receive_queue()
{
    pd_of(pd).children.fetch_sub(1);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

void shared_receive_queue::drain_events()
{
    const unsigned reported = context_of(context).async.forget(static_cast<ibv_srq *>(this));
    pthread_mutex_lock(&mutex);
    while (events_completed != reported)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
}

int shared_receive_queue::post(ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    std::vector<std::weak_ptr<queue_pair>> waiting;
    int error = 0;
    {
        const lock_guard lock(mutex_);
        for (; wr != nullptr; wr = wr->next) {
            receive_request request;
            error = queue_.size() >= attr_.max_wr ? ENOMEM : receive_request::from(*wr, attr_.max_sge, request);
            if (error != 0) {
                *bad = wr;
                break;
            }
            queue_.push_back(request);
        }
        if (!queue_.empty())
            waiting.swap(waiting_);
    }
    for (const auto &weak : waiting) {
        if (const auto qp = weak.lock())
            qp->receive_available();
    }
    return error;
}

int shared_receive_queue::modify(const ibv_srq_attr &attr, int mask)
{
    const lock_guard lock(mutex_);
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        if (attr.max_wr > limits::max_qp_wr || attr.max_wr < queue_.size())
            return EINVAL;
        attr_.max_wr = attr.max_wr;
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        if (attr.srq_limit > attr_.max_wr)
            return EINVAL;
        attr_.srq_limit = attr.srq_limit;
    }
    return 0;
}

void shared_receive_queue::query(ibv_srq_attr &attr)
{
    const lock_guard lock(mutex_);
    attr = attr_;
}

std::optional<receive_request> shared_receive_queue::take()
{
    const lock_guard lock(mutex_);
    if (queue_.empty())
        return std::nullopt;
    std::optional<receive_request> request = queue_.front();
    queue_.pop_front();
    if (attr_.srq_limit > queue_.size()) {
        attr_.srq_limit = 0;
        ibv_async_event event{};
        event.element.srq = this;
        event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
        context_of(context).async.push(event);
    }
    return request;
}

bool shared_receive_queue::call_when_posted(std::weak_ptr<queue_pair> qp)
{
    const lock_guard lock(mutex_);
    if (!queue_.empty())
        return false;
    waiting_.push_back(std::move(qp));
    return true;
}

} // namespace softrdma

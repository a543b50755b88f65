// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/shared_receive_queue.hpp"
#include "base/or_no_memory.hpp"
#include "verbs/qp.hpp"
#include "verbs/receive_queue.hpp"

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

void receive_fifo::resize(std::uint32_t capacity)
{
    auto entries = std::make_unique_for_overwrite<receive_request[]>(capacity);
    const std::uint32_t count = size();
    SOFTRDMA_ASSERT(count <= capacity);
    for (std::uint32_t i = 0; i < count; ++i)
        entries[i] = pop();
    // Positions begin with a multiple of the capacity, which leaves positions before it for requests that are put back.
    begin_ = capacity;
    end_ = begin_ + count;
    capacity_ = capacity;
    entries_ = std::move(entries);
}

shared_receive_queue::shared_receive_queue(ibv_pd *owner, const ibv_srq_init_attr &attr)
    : ibv_srq{}, max_sge_(attr.attr.max_sge), attr_(attr.attr), queue_(attr.attr.max_wr),
      describing_watch_(reader_list::instance().add(reader::own(describing_)))
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
    reader_list::instance().remove(describing_watch_);
    pd_of(pd).children.fetch_sub(1);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

void shared_receive_queue::drain_events()
{
    wait_for_acknowledgments(*this, events_completed, context_of(context).async.forget(events_));
}

int shared_receive_queue::post(ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    std::vector<std::weak_ptr<queue_pair>> waiting;
    int error = 0;
    {
        const lock_guard lock(mutex_);
        for (; wr != nullptr; wr = wr->next) {
            error = posted() >= attr_.max_wr ? ENOMEM : receive_request::from(*wr, max_sge_, queue_.next_free());
            if (error != 0) {
                *bad = wr;
                break;
            }
            queue_.push();
        }
        if (!queue_.empty())
            waiting.swap(waiting_);
        if (waiting.empty()) // otherwise these queue pairs take receives from here
            lend_to_some();
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
        if (attr.max_wr > limits::max_qp_wr || attr.max_wr < std::max(posted(), 1u))
            return EINVAL;
        queue_.resize(attr.max_wr);
        attr_.max_wr = attr.max_wr;
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        if (attr.srq_limit > attr_.max_wr)
            return EINVAL;
        attr_.srq_limit = attr.srq_limit;
        if (attr.srq_limit > 0)
            reclaim_all();
        lend_to_some();
    }
    return 0;
}

std::optional<receive_request> shared_receive_queue::take()
{
    const lock_guard lock(mutex_);
    if (!finds_one())
        return std::nullopt;
    const receive_request request = queue_.pop();
    check_limit();
    return request;
}

// Returns whether a receive is queued, after reclaiming lent ones if necessary. A limit requires the number of all.
bool shared_receive_queue::finds_one() noexcept
{
    if (attr_.srq_limit > 0)
        reclaim_all();
    for (std::size_t left = borrowers_.size(); left > 0 && queue_.empty(); --left)
        reclaim(*borrowers_[next_to_reclaim_++ % borrowers_.size()], lent::unused);
    return !queue_.empty();
}

void shared_receive_queue::check_limit()
{
    if (attr_.srq_limit <= queue_.size())
        return;
    attr_.srq_limit = 0;
    context_of(context).async.push(events_, IBV_EVENT_SRQ_LIMIT_REACHED);
}

bool shared_receive_queue::notify_when_posted(std::weak_ptr<queue_pair> qp)
{
    const lock_guard lock(mutex_);
    if (finds_one())
        return false;
    waiting_.push_back(std::move(qp));
    return true;
}

// If memory for the list is exhausted, messages take their receives like messages from other hosts.
void shared_receive_queue::begin_lending(receive_queue &to) noexcept
{
    const lock_guard lock(mutex_);
    try {
        borrowers_.push_back(&to);
    } catch (const std::bad_alloc &) {
        return;
    }
    lend_share(to);
}

void shared_receive_queue::end_lending(receive_queue &to, lent which) noexcept
{
    const lock_guard lock(mutex_);
    std::erase(borrowers_, &to);
    reclaim(to, which);
}

void shared_receive_queue::put_back(const receive_request &request) noexcept
{
    const lock_guard lock(mutex_);
    queue_.put_back(request);
    on_consumed();
}

void shared_receive_queue::reclaim(receive_queue &from, lent which) noexcept
{
    while (const auto request = from.reclaim(which)) {
        queue_.put_back(*request);
        on_consumed();
    }
}

void shared_receive_queue::lend_one(receive_queue &to)
{
    lent_.fetch_add(1, std::memory_order_relaxed);
    to.lend(queue_.pop());
}

bool shared_receive_queue::lend_to(receive_queue &to)
{
    const lock_guard lock(mutex_);
    if (!finds_one())
        return false;
    lend_one(to);
    check_limit();
    if (std::find(borrowers_.begin(), borrowers_.end(), &to) != borrowers_.end())
        lend_share(to);
    return true;
}

void shared_receive_queue::lend_share(receive_queue &to)
{
    const auto share = static_cast<std::uint32_t>(attr_.max_wr / std::max<std::size_t>(borrowers_.size(), 1));
    const std::uint32_t wanted = std::clamp(share, 1u, receive_queue::max_lent);
    while (to.count() < wanted && queue_.size() > attr_.srq_limit)
        lend_one(to);
}

// Lends to a few borrowers in turn, because there may be thousands.
void shared_receive_queue::lend_to_some()
{
    constexpr std::size_t few = 8;
    for (std::size_t left = std::min(few, borrowers_.size()); left > 0 && !queue_.empty(); --left)
        lend_share(*borrowers_[next_borrower_++ % borrowers_.size()]);
}

int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    return or_no_memory(ENOMEM, [&] { return srq_of(srq).post(wr, bad); });
}

} // namespace softrdma

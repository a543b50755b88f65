// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/objects.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace softrdma
{

class queue_pair;

struct receive_request {
    std::uint64_t wr_id = 0;
    int sge_count = 0;
    std::array<ibv_sge, limits::max_sge> sges; // the first sge_count are set

    // 0, or EINVAL when the request has more elements than allowed.
    static int from(const ibv_recv_wr &wr, std::uint32_t max_sge, receive_request &out) noexcept;
};

// Posted receives, as many as there is room for from the start. Of large ones most places are never touched, and take
// no memory.
class receive_fifo
{
public:
    explicit receive_fifo(std::uint32_t room)
        : room_(room), places_(std::make_unique_for_overwrite<receive_request[]>(room))
    {
    }

    bool full() const noexcept { return end_ - begin_ == room_; }
    bool empty() const noexcept { return end_ == begin_; }
    // Of the next one, until push() says that it is there.
    receive_request &place() noexcept { return places_[end_ % room_]; }
    void push() noexcept { ++end_; }
    // Valid until the next push().
    const receive_request &pop() noexcept { return places_[begin_++ % room_]; }
    void clear() noexcept { begin_ = end_; }

private:
    const std::uint32_t room_;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    std::unique_ptr<receive_request[]> places_;
};

class shared_receive_queue : public ibv_srq
{
public:
    shared_receive_queue(ibv_pd *owner, const ibv_srq_init_attr &attr);
    ~shared_receive_queue();

    // Waits until every asynchronous event that was handed out has been acknowledged.
    void drain_events();
    int post(ibv_recv_wr *wr, ibv_recv_wr **bad);
    int modify(const ibv_srq_attr &attr, int mask);
    void query(ibv_srq_attr &attr);
    std::optional<receive_request> take();
    // Tells the queue pair when something is posted, once. False if something is there already.
    bool call_when_posted(std::weak_ptr<queue_pair> qp);

    std::atomic<int> users{0};

private:
    ordered_mutex mutex_{lock_level::receives};
    ibv_srq_attr attr_ GUARDED_BY(mutex_){};
    std::deque<receive_request> queue_ GUARDED_BY(mutex_);
    std::vector<std::weak_ptr<queue_pair>> waiting_ GUARDED_BY(mutex_);
};

inline shared_receive_queue &srq_of(ibv_srq *srq) noexcept
{
    return *static_cast<shared_receive_queue *>(srq);
}

} // namespace softrdma

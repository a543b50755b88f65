// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "base/read_section.hpp"
#include "verbs/objects.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace softrdma
{

class queue_pair;
class receive_queue;

// Selects receives that a receive queue has been lent.
enum class lent {
    unused, // not taken by a message
    all,
};

struct receive_request {
    std::uint64_t wr_id = 0;
    int sge_count = 0;
    std::array<ibv_sge, limits::max_sge> sges; // the first sge_count are set

    static int from(const ibv_recv_wr &wr, std::uint32_t max_sge, receive_request &out) noexcept; // 0 or EINVAL
};

// Queue of posted receives with a fixed capacity. Unused entries of a large queue use no memory.
class receive_fifo
{
public:
    explicit receive_fifo(std::uint32_t capacity)
        : capacity_(capacity), entries_(std::make_unique_for_overwrite<receive_request[]>(capacity))
    {
    }

    bool full() const noexcept { return end_ - begin_ == capacity_; }
    bool empty() const noexcept { return end_ == begin_; }
    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(end_ - begin_); }
    receive_request &next_free() noexcept { return entries_[end_ % capacity_]; }
    void push() noexcept
    {
        SOFTRDMA_ASSERT(!full());
        ++end_;
    }
    // Valid until the next push().
    const receive_request &pop() noexcept
    {
        SOFTRDMA_ASSERT(!empty());
        return entries_[begin_++ % capacity_];
    }
    // Returns popped requests to the queue, in reverse order if several.
    void put_back(const receive_request &request) noexcept
    {
        SOFTRDMA_ASSERT(!full()); // the request still counts as posted
        entries_[--begin_ % capacity_] = request;
    }
    void resize(std::uint32_t capacity);
    void clear() noexcept { begin_ = end_; }

private:
    std::uint32_t capacity_;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    std::unique_ptr<receive_request[]> entries_;
};

// A shared receive queue lends receives to the receive queues of its queue pairs whose peers may act on them, so that a
// sender finds them without this process. A queue pair that finds none here gets receives that others have been lent
// and not used. The last `limit` receives are never lent, so that reaching the limit is detected.
class shared_receive_queue : public ibv_srq
{
public:
    shared_receive_queue(ibv_pd *owner, const ibv_srq_init_attr &attr);
    ~shared_receive_queue();

    void drain_events(); // waits until each returned event is acknowledged
    int post(ibv_recv_wr *wr, ibv_recv_wr **bad);
    int modify(const ibv_srq_attr &attr, int mask);
    void query(ibv_srq_attr &attr)
    {
        const lock_guard lock(mutex_);
        attr = attr_;
    }
    std::uint32_t max_sge() const noexcept { return max_sge_; }
    // Must not be called for a queue pair that a peer may act on: use receive_queue::take() there.
    std::optional<receive_request> take();
    // Start and end of lending to that queue, which has a peer that may act on it. Guarded by the lock.
    void begin_lending(receive_queue &to) noexcept;
    void end_lending(receive_queue &to, lent which) noexcept;
    bool lend_to(receive_queue &to); // receive for a message from the network; false if none is left
    void on_consumed() noexcept { lent_.fetch_sub(1, std::memory_order_relaxed); }
    void put_back(const receive_request &request) noexcept; // taken for a message that never completes
    // Section word for looking up the memory of lent receives.
    std::atomic<std::uint32_t> &describing() noexcept { return *describing_; }
    // Notifies the queue pair once when a receive is posted. Returns false if one is posted already.
    bool notify_when_posted(std::weak_ptr<queue_pair> qp);

    std::atomic<int> users{0};

private:
    std::uint32_t posted() const noexcept REQUIRES(mutex_) { return queue_.size() + lent_.load(); }
    bool finds_one() noexcept REQUIRES(mutex_);
    void reclaim(receive_queue &from, lent which) noexcept REQUIRES(mutex_);
    void reclaim_all() noexcept REQUIRES(mutex_)
    {
        for (receive_queue *borrower : borrowers_)
            reclaim(*borrower, lent::unused);
    }
    void lend_one(receive_queue &to) REQUIRES(mutex_);
    void lend_share(receive_queue &to) REQUIRES(mutex_);
    void lend_to_some() REQUIRES(mutex_);
    void check_limit() REQUIRES(mutex_);

    ordered_mutex mutex_{lock_level::receives};
    const std::uint32_t max_sge_;
    object_events events_{static_cast<ibv_srq *>(this)};
    ibv_srq_attr attr_ GUARDED_BY(mutex_){};
    receive_fifo queue_ GUARDED_BY(mutex_);
    std::vector<std::weak_ptr<queue_pair>> waiting_ GUARDED_BY(mutex_);
    std::vector<receive_queue *> borrowers_ GUARDED_BY(mutex_);
    std::size_t next_borrower_ GUARDED_BY(mutex_) = 0;
    std::size_t next_to_reclaim_ GUARDED_BY(mutex_) = 0;
    std::atomic<std::uint32_t> lent_{0}; // lent and not completed
    const std::shared_ptr<std::atomic<std::uint32_t>> describing_ = std::make_shared<std::atomic<std::uint32_t>>(0);
    const reader_list::entry describing_watch_;
};

inline shared_receive_queue &srq_of(ibv_srq *srq) noexcept
{
    return *static_cast<shared_receive_queue *>(srq);
}

int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad);

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "verbs/cq.hpp"
#include "verbs/wqe.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <utility>

namespace softrdma
{

struct posted_total {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
};

// The send queue of a queue pair: a ring of as many entries as it has been created for, in the order of posting. A
// request is made where it stays until it has completed. Guarded by the queue pair's lock; but whoever has kept others
// from posting, if the queue pair has a post_batch, may make requests without it.
class alignas(local::line) send_queue
{
public:
    send_queue(const ibv_qp &qp, const ibv_qp_cap &cap, bool signal_all);

    bool empty() const noexcept { return size() == 0; }
    std::uint32_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
    wqe &front() noexcept { return entries_[head_]; }
    wqe &operator[](std::uint32_t i) noexcept { return entries_[wrapped(head_ + i)]; }

    // How many requests may be posted.
    std::uint32_t room() const noexcept
    {
        const std::uint32_t used = size() + completed_ - freed_.load(std::memory_order_relaxed);
        return max_wr_ - std::min(used, max_wr_);
    }
    // Where the request is made that will be posted after `before` others. NULL if no entry is free.
    wqe *place(std::uint32_t before = 0) noexcept
    {
        const bool free = before < capacity_ - size_.load(std::memory_order_acquire);
        return free ? &entries_[wrapped(tail_ + before)] : nullptr;
    }
    // The one that has been made first waits in the queue from now on.
    wqe &push() noexcept
    {
        SOFTRDMA_ASSERT(size() < capacity_);
        wqe &w = entries_[tail_];
        tail_ = wrapped(tail_ + 1);
        w.queued();
        size_.store(size() + 1, std::memory_order_relaxed);
        count(w);
        return w;
    }
    // It has been executed before it was queued, which the queue is empty for.
    void pass() noexcept
    {
        SOFTRDMA_ASSERT(empty());
        const wqe &w = entries_[tail_];
        head_ = tail_ = wrapped(tail_ + 1);
        count(w);
        complete(finish(w), IBV_WC_SUCCESS);
    }
    // Nothing that has been made waits to be posted: an empty queue begins with its first entry again, which is in the
    // cache.
    void rewind() noexcept
    {
        if (empty())
            head_ = tail_ = 0;
    }
    // The first has completed.
    void pop_front(ibv_wc_status status) noexcept
    {
        SOFTRDMA_ASSERT(!empty());
        const finished first = finish(front());
        head_ = wrapped(head_ + 1);
        // Whoever sees the place free may write into it. It has to be free for whoever is told of the completion.
        size_.store(size() - 1, std::memory_order_release);
        complete(first, status);
    }
    // Nothing of what is queued completes.
    void clear() noexcept;
    // Completions that are still in their queue go their own way.
    void forget_completions() { cq_of(qp_.send_cq).forget(&freed_); }

    bool is_signaled(const wqe &w) const noexcept { return signal_all_ || (w.flags & IBV_SEND_SIGNALED) != 0; }
    // How many requests of these kinds have been posted, and the bytes of their data.
    posted_total posted(std::initializer_list<ibv_wr_opcode> opcodes) const noexcept;

private:
    std::uint32_t wrapped(std::uint32_t i) const noexcept { return i < capacity_ ? i : i - capacity_; }
    // What a completion tells of a request.
    struct finished {
        std::uint64_t wr_id;
        ibv_wc_opcode opcode;
        std::uint32_t length;
        bool is_signaled;
    };
    finished finish(const wqe &w) const noexcept { return {w.wr_id, w.info().completion, w.length, is_signaled(w)}; }
    void complete(const finished &request, ibv_wc_status status) noexcept;
    void count(const wqe &w) noexcept
    {
        posted_total &total = posted_[w.op];
        ++total.requests;
        total.bytes += w.length;
    }

    const std::unique_ptr<wqe[]> entries_;
    const std::uint32_t capacity_;
    const std::uint32_t max_wr_;
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0; // changed by whoever posts only
    std::atomic<std::uint32_t> size_{0};
    // A request keeps its place until the program has taken its completion or, if it asked for none, that of a later
    // one: until then nobody has told the program that the place is free.
    std::uint32_t completed_ = 0;
    std::uint32_t unreported_ = 0;        // of those, the latest that asked for no completion
    std::atomic<std::uint32_t> freed_{0}; // of those; guarded by the completion queue's lock
    const ibv_qp &qp_;
    const bool signal_all_;
    std::array<posted_total, detail::opcode_count> posted_{}; // of each opcode
};

inline void send_queue::complete(const finished &request, ibv_wc_status status) noexcept
{
    ++completed_;
    ++unreported_;
    if (status == IBV_WC_SUCCESS && !request.is_signaled)
        return;
    const std::uint32_t places = std::exchange(unreported_, 0);
    if (!cq_of(qp_.send_cq)
                    .push_sent(qp_.qp_num, request.wr_id, request.opcode, request.length, status, freed_, places))
        completed_ -= places;
}

} // namespace softrdma

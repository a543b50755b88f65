// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "base/process.hpp"
#include "verbs/cq.hpp"
#include "verbs/wqe.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace softrdma
{

struct posted_total {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
};

// Send queue: a ring of entries in posting order. A request is built in the entry that it occupies until it completes.
// Guarded by the queue pair's lock, except that the thread with the post_batch may build requests.
class alignas(cache_line) send_queue
{
public:
    send_queue(const ibv_qp &qp, const ibv_qp_cap &cap, bool signal_all);

    bool empty() const noexcept { return size() == 0; }
    std::uint32_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
    wqe &front() noexcept
    {
        SOFTRDMA_ASSERT(!empty());
        return entries_[head_];
    }
    wqe &operator[](std::uint32_t i) noexcept
    {
        SOFTRDMA_ASSERT(i < size());
        return entries_[wrapped(head_ + i)];
    }

    std::uint32_t available() const noexcept
    {
        const std::uint32_t used = size() + completed_ - freed_.load(std::memory_order_relaxed);
        return max_wr_ - std::min(used, max_wr_);
    }
    // Returns the free entry for the request that is posted after `before` others; NULL if no entry is free.
    wqe *next_free(std::uint32_t before = 0) noexcept
    {
        const bool free = before < capacity_ - size_.load(std::memory_order_acquire);
        return free ? &entries_[wrapped(tail_ + before)] : nullptr;
    }
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
    // Completes the next request without queueing it. The queue must be empty.
    void complete_unqueued() noexcept
    {
        SOFTRDMA_ASSERT(empty());
        const wqe &w = entries_[tail_];
        head_ = tail_ = wrapped(tail_ + 1);
        count(w);
        complete(finish(w), IBV_WC_SUCCESS);
    }
    // Starts an empty queue at its first entry again, which is in the cache. No built request may wait to be posted.
    void rewind() noexcept
    {
        if (empty())
            head_ = tail_ = 0;
    }
    void pop_front(ibv_wc_status status) noexcept
    {
        SOFTRDMA_ASSERT(!empty());
        front().enter(status == IBV_WC_SUCCESS ? wqe_state::succeeded : wqe_state::failed);
        const finished first = finish(front());
        head_ = wrapped(head_ + 1);
        // The entry, which finish() has copied, must be free before the program receives the completion.
        size_.store(size() - 1, std::memory_order_release);
        complete(first, status);
    }
    void clear() noexcept; // reports no completions
    bool is_signaled(const wqe &w) const noexcept { return signal_all_ || (w.flags & IBV_SEND_SIGNALED) != 0; }
    // Number of posted requests of these opcodes, and the bytes of their data.
    posted_total posted(std::initializer_list<ibv_wr_opcode> opcodes) const noexcept;

private:
    std::uint32_t wrapped(std::uint32_t i) const noexcept { return i < capacity_ ? i : i - capacity_; }
    struct finished {
        std::uint64_t wr_id;
        ibv_wc_opcode opcode;
        std::uint32_t length;
        bool is_signaled;
    };
    finished finish(const wqe &w) const noexcept { return {w.wr_id, w.info().completion, w.length, is_signaled(w)}; }
    void complete(const finished &request, ibv_wc_status status) noexcept
    {
        ++completed_;
        ++unreported_;
        if (status == IBV_WC_SUCCESS && !request.is_signaled)
            return;
        const std::uint32_t sq_entries = std::exchange(unreported_, 0);
        if (!cq_of(qp_.send_cq)
                        .push({.wr_id = request.wr_id,
                                .status = status,
                                .length = request.length,
                                .opcode = request.opcode,
                                .qpn = qp_.qp_num,
                                .freed = &freed_,
                                .sq_entries = sq_entries}))
            completed_ -= sq_entries;
    }
    void count(const wqe &w) noexcept
    {
        posted_total &total = posted_[w.op];
        ++total.requests;
        total.bytes += w.length;
    }

    const std::unique_ptr<wqe[]> entries_; // untouched entries use no memory
    const std::uint32_t capacity_;
    const std::uint32_t max_wr_;
    std::uint32_t head_ = 0;
    std::uint32_t tail_ = 0; // changed only by the posting thread
    std::atomic<std::uint32_t> size_{0};
    // A request occupies its entry until the program polls its completion. An unsignaled request keeps it until the
    // program polls that of a later request: before that, the program cannot know that the entry is free.
    std::uint32_t completed_ = 0;
    std::uint32_t unreported_ = 0;        // number of the latest completed requests that are unsignaled
    std::atomic<std::uint32_t> freed_{0}; // polled ones; guarded by the completion queue's lock
    const ibv_qp &qp_;
    const bool signal_all_;
    std::array<posted_total, detail::opcode_count> posted_{}; // indexed by opcode
};

// Requests between ibv_wr_start() and ibv_wr_complete(), built in the send queue by one thread, posted all or none.
class alignas(cache_line) post_batch
{
public:
    post_batch(send_queue &queue, const ibv_qp_cap &cap) : queue_(queue), cap_(cap) {}

    // Held between calls of the program, which the compiler's analysis cannot follow.
    void lock() noexcept NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
    void unlock() noexcept NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

    void start()
    {
        lock();
        latest_ = nullptr;
        size_ = 0;
        error_ = 0;
    }
    // Adds a request to the batch; the setters apply to the latest one.
    wqe &add(std::uint64_t wr_id, unsigned flags, ibv_wr_opcode opcode)
    {
        latest_ = queue_.next_free(size_);
        if (latest_ != nullptr) [[likely]] {
            ++size_;
        } else {
            fail(ENOMEM);
            latest_ = &unposted_;
        }
        latest_->begin(wr_id, flags, opcode);
        return *latest_;
    }
    void set_sge(std::uint64_t addr, std::uint32_t length, std::uint32_t lkey)
    {
        if (latest_ == nullptr || !takes_sges(cap_, 1)) [[unlikely]]
            return fail(EINVAL);
        latest_->set_sge(addr, length, lkey);
    }
    void set_sges(std::span<const ibv_sge> list);
    void set_ud(ibv_ah *ah, std::uint32_t qpn, std::uint32_t qkey)
    {
        if (latest_ == nullptr || ah == nullptr)
            return fail(EINVAL);
        latest_->set_ud(ah, qpn, qkey);
    }
    void set_inline(std::span<const ibv_data_buf> list);
    void fail(int error) noexcept // complete() will return the first error
    {
        SOFTRDMA_ASSERT(error != 0);
        error_ = error_ == 0 ? error : error_;
    }

    std::uint32_t size() const noexcept { return size_; } // requires the lock
    int error() const noexcept { return error_; }
    const process::birth &birth() const noexcept { return birth_; }

private:
    sleeping_lock mutex_{lock_level::program};
    send_queue &queue_;
    const ibv_qp_cap cap_;
    wqe *latest_ = nullptr;
    std::uint32_t size_ = 0;
    int error_ = 0;
    const process::birth birth_;
    wqe unposted_; // used when the send queue has no free entry
};

} // namespace softrdma

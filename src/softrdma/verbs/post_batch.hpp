// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"
#include "base/process.hpp"
#include "base/sleeping_lock.hpp"
#include "verbs/send_queue.hpp"

#include <cerrno>
#include <span>

namespace softrdma
{

// Requests between ibv_wr_start() and ibv_wr_complete(), posted all or none by one thread, which excludes others. Each
// is built and checked in its entry of the send queue.
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
    // Copies the data: the program may reuse the memory immediately.
    void set_inline(std::span<const ibv_data_buf> list);
    // complete() will return this errno value.
    void fail(int error) noexcept
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

// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/send_queue.hpp"

namespace softrdma
{

send_queue::send_queue(const ibv_qp &qp, const ibv_qp_cap &cap, bool signal_all)
    : entries_(std::make_unique_for_overwrite<wqe[]>(std::max(cap.max_send_wr, 1u))),
      capacity_(std::max(cap.max_send_wr, 1u)), max_wr_(cap.max_send_wr), qp_(qp), signal_all_(signal_all)
{
}

void send_queue::clear() noexcept
{
    head_ = tail_;
    size_.store(0, std::memory_order_release);
    completed_ -= std::exchange(unreported_, 0);
}

posted_total send_queue::posted(std::initializer_list<ibv_wr_opcode> opcodes) const noexcept
{
    posted_total sum;
    for (const ibv_wr_opcode opcode : opcodes) {
        sum.requests += posted_[opcode].requests;
        sum.bytes += posted_[opcode].bytes;
    }
    return sum;
}

void post_batch::set_sges(std::span<const ibv_sge> list)
{
    if (latest_ == nullptr || !takes_sges(cap_, list.size()))
        return fail(EINVAL);
    latest_->set_sges(list);
}

void post_batch::set_inline(std::span<const ibv_data_buf> list)
{
    std::uint64_t length = 0;
    for (const ibv_data_buf &segment : list) {
        if (segment.length > limits::max_inline) // prevents an overflow of the sum
            return fail(EINVAL);
        length += segment.length;
    }
    if (latest_ == nullptr || !takes_inline(cap_, latest_->op, length))
        return fail(EINVAL);
    latest_->set_inline(list);
}

} // namespace softrdma

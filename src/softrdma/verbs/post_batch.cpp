// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/post_batch.hpp"

namespace softrdma
{

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

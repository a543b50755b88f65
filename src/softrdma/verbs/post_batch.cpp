// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/post_batch.hpp"
#include "verbs/request_kind.hpp"

#include <algorithm>

namespace softrdma
{

post_batch::post_batch(const ibv_qp_cap &cap)
    : max_sge_(cap.max_send_sge), max_inline_(cap.max_inline_data),
      // Most of a large queue's requests are never touched.
      requests_(std::make_unique_for_overwrite<request[]>(std::max(cap.max_send_wr, 1u))),
      limit_(requests_.get() + std::max(cap.max_send_wr, 1u))
{
}

void post_batch::set_gather(std::span<const ibv_sge> pieces)
{
    if (!may_gather(pieces.size()))
        return fail(EINVAL);
    request &r = end_[-1];
    std::copy(pieces.begin(), pieces.end(), r.pieces.begin());
    has_gathered(r, pieces.size(), length_of(pieces));
}

void post_batch::set_inline(std::span<const ibv_data_buf> pieces)
{
    if (end_ == requests_.get() || kind_of(end_[-1].wr.opcode).scatters)
        return fail(EINVAL);
    request &r = end_[-1];
    const std::size_t room = inline_room(r.wr.opcode, max_inline_);
    std::size_t used = 0;
    for (const ibv_data_buf &piece : pieces) {
        if (piece.length > room - used)
            return fail(EINVAL);
        if (piece.length > 0)
            memcpy(r.inlined.data() + used, piece.addr, piece.length);
        used += piece.length;
    }
    r.pieces[0] = {reinterpret_cast<std::uintptr_t>(r.inlined.data()), static_cast<std::uint32_t>(used), 0};
    r.wr.num_sge = used > 0 ? 1 : 0;
    r.wr.send_flags |= IBV_SEND_INLINE;
    r.length = used;
}

} // namespace softrdma

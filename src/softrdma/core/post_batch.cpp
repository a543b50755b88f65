// SPDX-License-Identifier: BSD-3-Clause
#include "core/post_batch.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma
{

void post_batch::start()
{
    mutex_.lock();
    count_ = 0;
    error_ = 0;
}

// Each is chained to the next for good.
void post_batch::grow()
{
    const std::size_t capacity = std::max<std::size_t>(2 * capacity_, 4);
    auto larger = std::make_unique<entry[]>(capacity);
    std::copy_n(entries_.get(), count_, larger.get());
    for (std::size_t i = 0; i < capacity; ++i) {
        entry &e = larger[i];
        e.wr.next = i + 1 < capacity ? &larger[i + 1].wr : nullptr;
        e.wr.sg_list = e.pieces.data();
        if (i < count_ && (e.wr.send_flags & IBV_SEND_INLINE) != 0)
            e.pieces[0].addr = reinterpret_cast<std::uintptr_t>(e.inlined.data());
    }
    entries_ = std::move(larger);
    capacity_ = capacity;
}

void post_batch::set_gather(std::span<const ibv_sge> pieces)
{
    if (count_ == 0 || pieces.size() > limits::max_sge)
        return fail(EINVAL);
    entry &e = entries_[count_ - 1];
    std::copy(pieces.begin(), pieces.end(), e.pieces.begin());
    e.wr.num_sge = static_cast<int>(pieces.size());
    e.wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
}

void post_batch::set_inline(std::span<const ibv_data_buf> pieces)
{
    if (count_ == 0)
        return fail(EINVAL);
    entry &e = entries_[count_ - 1];
    std::size_t used = 0;
    for (const ibv_data_buf &piece : pieces) {
        if (piece.length > e.inlined.size() - used)
            return fail(EINVAL);
        if (piece.length > 0)
            memcpy(e.inlined.data() + used, piece.addr, piece.length);
        used += piece.length;
    }
    e.pieces[0] = {reinterpret_cast<std::uintptr_t>(e.inlined.data()), static_cast<std::uint32_t>(used), 0};
    e.wr.num_sge = used > 0 ? 1 : 0;
    e.wr.send_flags |= IBV_SEND_INLINE;
}

void post_batch::finish()
{
    mutex_.unlock();
}

} // namespace softrdma

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

ibv_send_wr &post_batch::add(std::uint64_t wr_id, unsigned flags, ibv_wr_opcode opcode)
{
    if (count_ == entries_.size())
        entries_.emplace_back();
    entry &e = entries_[count_++];
    e.wr.wr_id = wr_id;
    e.wr.next = nullptr;
    e.wr.sg_list = e.pieces.data();
    e.wr.num_sge = 0;
    e.wr.opcode = opcode;
    e.wr.send_flags = flags & ~static_cast<unsigned>(IBV_SEND_INLINE); // a setter says so
    return e.wr;
}

void post_batch::set_gather(std::span<const ibv_sge> pieces)
{
    if (count_ == 0 || pieces.size() > limits::max_sge)
        return fail(EINVAL);
    entry &e = entries_[count_ - 1];
    std::copy(pieces.begin(), pieces.end(), e.pieces.begin());
    e.wr.num_sge = static_cast<int>(pieces.size());
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

const ibv_send_wr *post_batch::requests(int &error) noexcept
{
    error = error_;
    for (std::size_t i = 1; i < count_; ++i)
        entries_[i - 1].wr.next = &entries_[i].wr;
    return count_ == 0 || error_ != 0 ? nullptr : &entries_.front().wr;
}

void post_batch::finish()
{
    mutex_.unlock();
}

} // namespace softrdma

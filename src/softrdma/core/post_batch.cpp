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
    e.pieces[0] = {0, static_cast<std::uint32_t>(used), 0}; // the address when the entries move no more
    e.wr.num_sge = used > 0 ? 1 : 0;
    e.wr.send_flags |= IBV_SEND_INLINE;
}

const ibv_send_wr *post_batch::requests(int &error) noexcept
{
    error = error_;
    ibv_send_wr *next = nullptr;
    for (std::size_t i = count_; i-- > 0; next = &entries_[i].wr) {
        entry &e = entries_[i];
        e.wr.next = next;
        e.wr.sg_list = e.pieces.data();
        if ((e.wr.send_flags & IBV_SEND_INLINE) != 0)
            e.pieces[0].addr = reinterpret_cast<std::uintptr_t>(e.inlined.data());
    }
    return count_ == 0 || error_ != 0 ? nullptr : &entries_.front().wr;
}

void post_batch::finish()
{
    mutex_.unlock();
}

} // namespace softrdma

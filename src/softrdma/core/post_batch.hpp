// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/native.hpp"
#include "core/objects.hpp"
#include "core/sleeping_lock.hpp"

#include <array>
#include <memory>
#include <span>

namespace softrdma
{

// The requests between ibv_wr_start() and ibv_wr_complete(), which are posted all together or not at all. The thread
// that started keeps others out until it completes or aborts.
class post_batch
{
public:
    void start();
    // The latest of the batch; what is set applies to it.
    ibv_send_wr &add(std::uint64_t wr_id, unsigned flags, ibv_wr_opcode opcode)
    {
        if (count_ == capacity_)
            grow();
        ibv_send_wr &wr = entries_[count_++].wr;
        wr.wr_id = wr_id;
        wr.num_sge = 0;
        wr.opcode = opcode;
        wr.send_flags = flags & ~static_cast<unsigned>(IBV_SEND_INLINE); // a setter says so
        return wr;
    }
    void set_gather(std::span<const ibv_sge> pieces);
    // Copies: the program may use the memory again at once.
    void set_inline(std::span<const ibv_data_buf> pieces);
    // complete() will report this errno value.
    void fail(int error) noexcept { error_ = error_ == 0 ? error : error_; }

    // To be asked before finish(): each request is chained to the next, the last one to anything.
    const ibv_send_wr &first() const noexcept { return entries_[0].wr; }
    std::size_t size() const noexcept { return count_; }
    int error() const noexcept { return error_; }
    void finish();

private:
    struct entry {
        ibv_send_wr wr;
        std::array<ibv_sge, limits::max_sge> pieces;
        std::array<std::byte, limits::max_inline> inlined;
    };

    void grow();

    sleeping_lock mutex_;
    std::unique_ptr<entry[]> entries_; // for the largest batch so far
    std::size_t capacity_ = 0;
    std::size_t count_ = 0;
    int error_ = 0;
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/biased_lock.hpp"
#include "base/sleeping_lock.hpp"
#include "transport/shm/layout.hpp"
#include "verbs/native.hpp"
#include "verbs/objects.hpp"
#include "base/process.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <span>

namespace softrdma
{

// The requests between ibv_wr_start() and ibv_wr_complete(), which are posted all together or not at all. The thread
// that started keeps others out until it completes or aborts. Each request is checked while it is being made.
class alignas(local::line) post_batch
{
public:
    struct request {
        ibv_send_wr wr;
        std::uint64_t length; // of the data
        std::array<ibv_sge, limits::max_sge> pieces;
        std::array<std::byte, limits::max_inline> inlined;
    };

    explicit post_batch(const ibv_qp_cap &cap);

    void start()
    {
        mutex_.lock();
        end_ = requests_.get();
        error_ = 0;
    }
    // The latest of the batch; what is set applies to it.
    ibv_send_wr &add(std::uint64_t wr_id, unsigned flags, ibv_wr_opcode opcode)
    {
        if (end_ == limit_) [[unlikely]] {
            fail(ENOMEM);
            --end_;
        }
        request &r = *end_++;
        r.wr.wr_id = wr_id;
        r.wr.sg_list = r.pieces.data();
        r.wr.num_sge = 0;
        r.wr.opcode = opcode;
        r.wr.send_flags = flags & ~static_cast<unsigned>(IBV_SEND_INLINE); // a setter says so
        r.length = 0;
        return r.wr;
    }
    void set_gather(std::uint64_t addr, std::uint32_t length, std::uint32_t lkey)
    {
        if (!may_gather(1)) [[unlikely]]
            return fail(EINVAL);
        request &r = end_[-1];
        r.pieces[0].addr = addr;
        r.pieces[0].length = length;
        r.pieces[0].lkey = lkey;
        has_gathered(r, 1, length);
    }
    void set_gather(std::span<const ibv_sge> pieces);
    // Copies: the program may use the memory again at once.
    void set_inline(std::span<const ibv_data_buf> pieces);
    // complete() will report this errno value.
    void fail(int error) noexcept { error_ = error_ == 0 ? error : error_; }

    // To be asked before finish().
    std::span<const request> requests() const noexcept { return {requests_.get(), end_}; }
    int error() const noexcept { return error_; }
    const process::birth &birth() const noexcept { return birth_; }
    void finish() { mutex_.unlock(); }

private:
    bool may_gather(std::size_t pieces) const noexcept { return pieces <= max_sge_ && end_ != requests_.get(); }
    static void has_gathered(request &r, std::size_t pieces, std::uint64_t length) noexcept
    {
        r.wr.num_sge = static_cast<int>(pieces);
        r.wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
        r.length = length;
    }

    biased<sleeping_lock> mutex_;
    const std::uint32_t max_sge_;
    const std::uint32_t max_inline_;
    const std::unique_ptr<request[]> requests_;
    request *const limit_;
    request *end_ = nullptr;
    int error_ = 0;
    const process::birth birth_;
};

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/native.hpp"
#include "core/objects.hpp"
#include "core/sleeping_lock.hpp"

#include <array>
#include <span>
#include <vector>

namespace softrdma
{

// The requests between ibv_wr_start() and ibv_wr_complete(), which are posted all together or not at all. The thread
// that started keeps others out until it completes or aborts.
class post_batch
{
public:
    void start();
    // The latest of the batch; what is set applies to it.
    ibv_send_wr &add(std::uint64_t wr_id, unsigned flags, ibv_wr_opcode opcode);
    void set_gather(std::span<const ibv_sge> pieces);
    // Copies: the program may use the memory again at once.
    void set_inline(std::span<const ibv_data_buf> pieces);
    // complete() will report this errno value.
    void fail(int error) noexcept { error_ = error_ == 0 ? error : error_; }

    // The chained requests, or NULL if there are none; then or after an error complete with finish().
    const ibv_send_wr *requests(int &error) noexcept;
    void finish();

private:
    struct entry {
        ibv_send_wr wr;
        std::array<ibv_sge, limits::max_sge> pieces;
        std::array<std::byte, limits::max_inline> inlined;
    };

    sleeping_lock mutex_;
    std::vector<entry> entries_; // grows to the largest batch and is used again
    std::size_t count_ = 0;
    int error_ = 0;
};

} // namespace softrdma

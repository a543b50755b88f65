// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/assert.hpp"

#include <algorithm>
#include <cstdint>

namespace softrdma
{

// Lock order, see docs/softrdma.md. Locks of level `program` are held between its calls; it may hold several of them.
enum class lock_level : std::uint8_t {
    program,
    requests,
    reading,
    connecting,
    creation,
    queue_pair,
    receives,
    completion_queue,
    events,
    windows,
    regions,
    sending,
    tables,
    leaf,
};

// Aborts when a thread takes a lock out of order, if built with SOFTRDMA_LOCK_ORDER.
class lock_order
{
public:
#ifdef SOFTRDMA_LOCK_ORDER
    explicit constexpr lock_order(lock_level level) noexcept : bit_(1u << static_cast<unsigned>(level)) {}
    void enter() const noexcept
    {
        constexpr std::uint32_t of_program = 1u << static_cast<unsigned>(lock_level::program);
        SOFTRDMA_ASSERT(held < std::max(bit_, of_program + 1)); // all locks that this thread holds have earlier levels
        held |= bit_;
    }
    void leave() const noexcept
    {
        held &= ~bit_;
    }

private:
    static inline thread_local std::uint32_t held = 0;
    std::uint32_t bit_;
#else
    explicit constexpr lock_order(lock_level) noexcept {}
    void enter() const noexcept {}
    void leave() const noexcept {}
#endif
};

} // namespace softrdma

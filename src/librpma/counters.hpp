// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.hpp"

namespace rpma
{

// Counter of posted operations, without a lock on the hot path: of two simultaneous increments, one may be lost.
class counter
{
public:
    [[gnu::always_inline]] void add(std::uint64_t amount)
    {
        value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
    std::uint64_t read() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_ = 0;
};
static_assert(sizeof(counter) == sizeof(std::uint64_t));

struct counters {
    rpma_conn_counters read() const
    {
        return {reads.read(), read_bytes.read(), writes.read(), write_bytes.read(), atomic_writes.read(),
                flushes.read(), sends.read(), send_bytes.read(), receives.read()};
    }

    counter reads, read_bytes, writes, write_bytes, atomic_writes, flushes, sends, send_bytes, receives;
};
static_assert(sizeof(counters) == sizeof(rpma_conn_counters));

} // namespace rpma

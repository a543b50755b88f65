// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/barriers.hpp"
#include "base/lock.hpp"
#include "base/reserve.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

namespace softrdma::local
{

// A word that is odd while somebody is inside an operation. Written by one thread at a time.
class read_section
{
public:
    explicit read_section(std::atomic<std::uint32_t> &word) noexcept : word_(word)
    {
        // Whoever takes something away executes a barrier for both, and looks at the word then.
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~read_section() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    read_section(const read_section &) = delete;
    read_section &operator=(const read_section &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

// Leaves a section for a while that takes long and touches nothing of the peer. What was looked up before is not to be
// used after it.
class epoch_pause
{
public:
    explicit epoch_pause(std::atomic<std::uint32_t> &word) noexcept : word_(word)
    {
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    ~epoch_pause()
    {
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    epoch_pause(const epoch_pause &) = delete;
    epoch_pause &operator=(const epoch_pause &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

struct reader {
    std::shared_ptr<const std::atomic<std::uint32_t>> word; // with the memory that it is in
    const std::atomic<std::uint32_t> *region_in_use;        // NULL: any region may be
    bool (*gone)(const void *);                             // NULL, or says of the owner that it stores no more
    std::shared_ptr<const void> owner;
    bool enrolled; // the owner, see barriers::enroll()

    static reader own(std::shared_ptr<const std::atomic<std::uint32_t>> word) noexcept
    {
        return {std::move(word), nullptr, nullptr, nullptr, barriers::enroll()};
    }
};

// How long an operation of a process that runs may last at most. One that is stopped may be inside for ever.
inline constexpr std::chrono::seconds longest_operation{5};

// The operations that are in progress when this is made, after something was taken away: whoever begins one later sees
// that.
class operations_in_progress
{
public:
    // That of one reader, whatever region it uses.
    explicit operations_in_progress(const reader &watched);

    // True when each has ended, or whoever was at it lives no more, which the kernel is asked for.
    bool ended();
    // Waits. To be called without a lock, for the one that is inside may be stopped.
    bool ended_within(std::chrono::steady_clock::duration limit);

private:
    friend class reader_list;
    struct operation {
        reader of;
        std::uint32_t seen;
    };
    static constexpr std::uint32_t any_region = 0;

    operations_in_progress() = default;
    // To be called after the barrier.
    void add(const reader &watched, std::uint32_t key);

    std::vector<operation, reserve::allocator<operation>> operations_;
};

// Everyone who may be inside an operation on this process' memory.
class reader_list
{
public:
    static reader_list &instance();

    using entry = std::list<reader>::iterator;
    entry add(const reader &watched);
    void remove(entry e);
    // To be called after the region with that key was taken away.
    operations_in_progress in_progress(std::uint32_t key);

private:
    ordered_mutex mutex_{lock_level::regions};
    std::list<reader> words_ GUARDED_BY(mutex_);
};

} // namespace softrdma::local

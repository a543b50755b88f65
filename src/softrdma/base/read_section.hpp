// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/reserve.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

// Asymmetric memory barriers, for two sides that each store and then load what the other stored. The rare side executes
// the barriers of both by the system call membarrier, and the frequent side needs only plain stores. If membarrier does
// not reach a process, the rare side waits longer than a CPU delays a store.
namespace softrdma::barriers
{

// Registers this process for membarrier, once: with many threads it takes milliseconds. False if the kernel rejects it.
bool enroll() noexcept;

void execute_between_processes(bool all_enrolled) noexcept; // all_enrolled: enroll() succeeded in each process

} // namespace softrdma::barriers

namespace softrdma
{

// Polls until `condition` is true; returns false after `limit`. For short waits. The caller must not hold a lock.
template<typename Condition>
bool becomes_true_within(std::chrono::steady_clock::duration limit, Condition condition)
{
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (unsigned tries = 0; !condition(); ++tries) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(tries < 1024 ? 1 : 100));
    }
    return true;
}

// Read-side section: its word is odd while a thread accesses memory of a peer. One thread at a time writes the word.
class read_section
{
public:
    explicit read_section(std::atomic<std::uint32_t> &word) noexcept : word_(word)
    {
        // No barrier here: a remover executes one for both sides and then reads the word.
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~read_section() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    read_section(const read_section &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

// Leaves a section during a long step that does not access the peer. Earlier pointers are invalid afterwards.
class section_pause
{
public:
    explicit section_pause(std::atomic<std::uint32_t> &word) noexcept : word_(word)
    {
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    ~section_pause()
    {
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    section_pause(const section_pause &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

struct reader {
    std::shared_ptr<const std::atomic<std::uint32_t>> word; // shared ownership of the memory that contains it
    const std::atomic<std::uint32_t> *region_in_use;        // NULL if any region may be in use
    bool (*gone)(const void *); // returns true once the owner can no longer store; may be NULL
    std::shared_ptr<const void> owner;
    bool enrolled; // barriers::enroll() succeeded in the owner

    static reader own(std::shared_ptr<const std::atomic<std::uint32_t>> word) noexcept
    {
        return {std::move(word), nullptr, nullptr, nullptr, barriers::enroll()};
    }
};

// Maximum duration of an operation of a running process. A stopped process may remain inside one forever.
inline constexpr std::chrono::seconds grace_limit{5};

// Grace period after a removal: waits for the sections that are open at its start. Later sections see the removal.
class grace_period
{
public:
    grace_period() = default;                     // has ended
    explicit grace_period(const reader &watched); // watches one reader, whatever region it uses
    void prepare() { operations_.reserve(1); }    // restart() then requires no memory
    void clear() noexcept { operations_.clear(); }
    void restart(const reader &watched); // watches this reader instead of the earlier ones

    bool ended(); // returns true when each section has ended or its process no longer exists, according to the kernel
    // Waits for ended(). The caller must not hold a lock, because a thread inside a section may be stopped.
    bool ended_within(std::chrono::steady_clock::duration limit)
    {
        return becomes_true_within(limit, [this] { return ended(); });
    }

private:
    friend class reader_list;
    struct operation {
        reader of;
        std::uint32_t observed;
    };
    static constexpr std::uint32_t any_region = 0;

    void add(const reader &watched, std::uint32_t key); // call after the barrier

    std::vector<operation, reserve::allocator<operation>> operations_;
};

class reader_list
{
public:
    static reader_list &instance() { return process::instance<reader_list>(); }

    using entry = std::list<reader>::iterator;
    entry add(const reader &watched)
    {
        const lock_guard lock(mutex_);
        return words_.insert(words_.end(), watched);
    }
    void remove(entry e)
    {
        const lock_guard lock(mutex_);
        words_.erase(e);
    }
    grace_period in_progress(std::uint32_t key); // call after the region with this key was removed

private:
    ordered_mutex mutex_{lock_level::regions};
    std::list<reader> words_ GUARDED_BY(mutex_);
};

} // namespace softrdma

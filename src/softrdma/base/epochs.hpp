// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/barriers.hpp"

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace softrdma::local
{

// A word that is odd while somebody is inside an operation. Written by one thread at a time.
class epoch_section
{
public:
    explicit epoch_section(std::atomic<std::uint32_t> &word) noexcept : word_(word)
    {
        // Whoever takes something away executes a barrier for both, and looks at the word then.
        word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~epoch_section() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    epoch_section(const epoch_section &) = delete;
    epoch_section &operator=(const epoch_section &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

struct watched_epoch {
    std::atomic<std::uint32_t> *word;
    bool (*gone)(const void *); // NULL, or says of the owner that it writes the word no more
    const void *owner;
    bool enrolled; // the owner, see barriers::enroll()

    static watched_epoch own(std::atomic<std::uint32_t> &word) noexcept
    {
        return {&word, nullptr, nullptr, barriers::enroll()};
    }
};

// True when whoever was inside at the call has left; false if that takes too long.
bool wait_outside(const watched_epoch &watched) noexcept;

// Everyone who may be inside an operation on this process' memory.
class epoch_list
{
public:
    static epoch_list &instance();

    using entry = std::list<watched_epoch>::iterator;
    entry add(const watched_epoch &watched);
    void remove(entry e);
    // To be called after something was taken away: returns when nobody can still be using it.
    void wait();

private:
    std::mutex mutex_;
    std::list<watched_epoch> words_;
};

} // namespace softrdma::local

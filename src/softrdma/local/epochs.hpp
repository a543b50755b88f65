// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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
        // Sequentially consistent: whoever takes something away looks at the word afterwards.
        word_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~epoch_section() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    epoch_section(const epoch_section &) = delete;
    epoch_section &operator=(const epoch_section &) = delete;

private:
    std::atomic<std::uint32_t> &word_;
};

// True when whoever was inside at the call has left; false if that takes too long. `gone` says that nobody writes
// the word any more.
bool wait_outside(std::atomic<std::uint32_t> &word, bool (*gone)(const void *), const void *owner) noexcept;

struct watched_epoch {
    std::atomic<std::uint32_t> *word;
    bool (*gone)(const void *);
    const void *owner;
};

// Everyone who may be inside an operation on this process' memory.
class epoch_list
{
public:
    static epoch_list &instance();

    using entry = std::list<watched_epoch>::iterator;
    entry add(std::atomic<std::uint32_t> &word, bool (*gone)(const void *), const void *owner);
    void remove(entry e);
    // To be called after something was taken away: returns when nobody can still be using it.
    void wait();

private:
    std::mutex mutex_;
    std::list<watched_epoch> words_;
};

} // namespace softrdma::local

// SPDX-License-Identifier: BSD-3-Clause
#include "local/epochs.hpp"

#include <chrono>
#include <thread>

namespace softrdma::local
{

namespace
{

// A peer that is stopped inside an operation must not stop us for good.
constexpr auto patience = std::chrono::seconds(5);

} // namespace

bool wait_outside(std::atomic<std::uint32_t> &word, bool (*gone)(const void *), const void *owner) noexcept
{
    // Changes nothing, but puts this look at the word and an entrance into one order.
    const std::uint32_t seen = word.fetch_add(0, std::memory_order_seq_cst);
    if (seen % 2 == 0)
        return true;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (unsigned tries = 0; word.load(std::memory_order_acquire) == seen; ++tries) {
        if (tries < 64)
            continue;
        if (gone != nullptr && gone(owner))
            return true;
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(tries < 1024 ? 1 : 100));
    }
    return true;
}

epoch_list &epoch_list::instance()
{
    static auto *list = new epoch_list;
    return *list;
}

epoch_list::entry epoch_list::add(std::atomic<std::uint32_t> &word, bool (*gone)(const void *), const void *owner)
{
    const std::lock_guard lock(mutex_);
    return words_.insert(words_.end(), {&word, gone, owner});
}

void epoch_list::remove(entry e)
{
    const std::lock_guard lock(mutex_);
    words_.erase(e);
}

void epoch_list::wait()
{
    const std::lock_guard lock(mutex_);
    for (const watched_epoch &w : words_)
        wait_outside(*w.word, w.gone, w.owner);
}

} // namespace softrdma::local

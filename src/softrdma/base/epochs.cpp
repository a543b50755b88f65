// SPDX-License-Identifier: BSD-3-Clause
#include "base/epochs.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace softrdma::local
{

namespace
{

// A peer that is stopped inside an operation must not stop us for good.
constexpr auto patience = std::chrono::seconds(5);

// After the barrier.
bool wait_until_left(const watched_epoch &watched) noexcept
{
    const std::uint32_t seen = watched.word->load(std::memory_order_acquire);
    if (seen % 2 == 0)
        return true;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (unsigned tries = 0; watched.word->load(std::memory_order_acquire) == seen; ++tries) {
        if (tries < 64)
            continue;
        if (watched.gone != nullptr && watched.gone(watched.owner))
            return true;
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(tries < 1024 ? 1 : 100));
    }
    return true;
}

} // namespace

bool wait_outside(const watched_epoch &watched) noexcept
{
    barriers::execute_between_processes(watched.enrolled);
    return wait_until_left(watched);
}

epoch_list &epoch_list::instance()
{
    static auto *list = new epoch_list;
    return *list;
}

epoch_list::entry epoch_list::add(const watched_epoch &watched)
{
    const std::lock_guard lock(mutex_);
    return words_.insert(words_.end(), watched);
}

void epoch_list::remove(entry e)
{
    const std::lock_guard lock(mutex_);
    words_.erase(e);
}

void epoch_list::wait()
{
    const std::lock_guard lock(mutex_);
    barriers::execute_between_processes(std::ranges::all_of(words_, &watched_epoch::enrolled));
    for (const watched_epoch &w : words_)
        wait_until_left(w);
}

} // namespace softrdma::local

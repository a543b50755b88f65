// SPDX-License-Identifier: BSD-3-Clause
#include "base/read_section.hpp"

#include <algorithm>
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma::barriers
{

static bool membarrier(membarrier_cmd command) noexcept
{
    const int before = errno;
    const bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = before;
    return done;
}

bool enroll() noexcept
{
    static constinit process::single<const bool> enrolled;
    return enrolled.get(
            [] { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) ? &process::yes : &process::no; });
}

void execute_between_processes(bool all_enrolled) noexcept
{
    if (!enroll() || !all_enrolled || !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace softrdma::barriers

namespace softrdma
{

grace_period::grace_period(const reader &watched)
{
    restart(watched);
}

void grace_period::restart(const reader &watched)
{
    operations_.clear();
    barriers::execute_between_processes(watched.enrolled);
    add(watched, any_region);
}

void grace_period::add(const reader &watched, std::uint32_t key)
{
    const std::uint32_t observed = watched.word->load(std::memory_order_acquire);
    const bool uses_key = key == any_region || watched.region_in_use == nullptr ||
                          watched.region_in_use->load(std::memory_order_relaxed) == key;
    if (observed % 2 != 0 && uses_key)
        operations_.push_back({watched, observed});
}

// Queries the kernel too: a killed process may still be copying inside a system call.
bool grace_period::ended()
{
    std::erase_if(operations_, [](const operation &o) {
        return o.of.word->load(std::memory_order_acquire) != o.observed ||
               (o.of.gone != nullptr && o.of.gone(o.of.owner.get()));
    });
    return operations_.empty();
}

grace_period reader_list::in_progress(std::uint32_t key)
{
    bool enrolled = false;
    {
        const lock_guard lock(mutex_);
        enrolled = std::ranges::all_of(words_, &reader::enrolled);
    }
    barriers::execute_between_processes(enrolled);
    // Readers that were added after the barrier cannot find the removed region.
    grace_period found;
    const lock_guard lock(mutex_);
    for (const reader &watched : words_)
        found.add(watched, key);
    return found;
}

} // namespace softrdma

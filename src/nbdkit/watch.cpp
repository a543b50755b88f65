// SPDX-License-Identifier: BSD-3-Clause
// Detects that the set has failed or that another writer owns it.
#include "format.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>

namespace nbdkit_mirror
{

int disk::fail(const char *message) noexcept
{
    if (!failed_.exchange(true))
        failed_function_(message);
    return EIO;
}

void disk::on_event(const rpma_mirror_event &event)
{
    const std::string copy = "copy " + std::to_string(event.copy);
    switch (event.type) {
    case RPMA_MIRROR_EVENT_FENCED:
        fail("another writer owns the set");
        break;
    case RPMA_MIRROR_EVENT_LEASE_EXPIRED:
        fail("the lease of the arbiter has expired");
        break;
    case RPMA_MIRROR_EVENT_EVICTED:
        event_function_(copy + " left the set: " + rpma_mirror_err_2str(event.error.code));
        break;
    case RPMA_MIRROR_EVENT_NO_TARGET:
        event_function_("no target is in sync");
        break;
    case RPMA_MIRROR_EVENT_IN_SYNC:
        event_function_(copy + " is in sync");
        break;
    default:
        break;
    }
}

// Returns the time since the boot, which continues while this machine is suspended.
std::int64_t disk::boot_time_ms() noexcept
{
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Flushes a word, which fails if another writer has fenced this one.
int disk::confirm() noexcept
{
    unsigned number = 0;
    lane &used = take_lane(number);
    const std::lock_guard guard(used.lock, std::adopt_lock);
    const std::int64_t started_ms = boot_time_ms();
    const rpma_mirror_range magic_word{0, sizeof(magic)};
    if (rpma_mirror_optimized_flush(mirror_, number, &magic_word, 1, 0) != 0)
        return fail(rpma_mirror_error_message());
    confirmed_ms_ = started_ms;
    return 0;
}

// Detects fencing while the clients are idle.
void disk::background(const std::stop_token &stop)
{
    std::mutex lock;
    std::condition_variable_any ended;
    while (!failed_) {
        {
            std::unique_lock guard(lock);
            ended.wait_for(guard, stop, std::chrono::seconds(1), [] { return false; });
        }
        if (stop.stop_requested() || confirm() != 0)
            return;
    }
}

} // namespace nbdkit_mirror

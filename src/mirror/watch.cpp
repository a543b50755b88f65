// SPDX-License-Identifier: BSD-3-Clause
#include "watch.hpp"

#include <poll.h>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

namespace
{

constexpr int poll_interval_ms = 500;

} // namespace

watcher::watcher(set_parts &of, background_resync &background)
    : settings_(of.configured), membership_(of.members), arbiter_(*of.decider), renewal_(of.renewal),
      copies_(of.copies), background_(background), lost_(of.lost)
{
}

void watcher::start()
{
    thread_ = quiet_thread([this] { watch(); });
}

void watcher::stop()
{
    if (!thread_.joinable())
        return;
    stop_.raise();
    thread_.join();
}

void watcher::poll_targets()
{
    failed_copies failed;
    {
        const std::lock_guard guard(membership_);
        const roles now = membership_.now();
        each_copy(now.awaited | now.syncing, [&](unsigned copy) {
            if (replica::has_disconnected(copies_[copy]->control->fd()))
                failed.add(copy, ECONNRESET);
            else if (const int error = copies_[copy]->region->lost().error(); error != 0)
                failed.add(copy, error);
        });
    }
    if (failed.bits != 0)
        membership_.evict(failed);
    if (const std::uint32_t slow = lost_.slow.exchange(0); slow != 0)
        membership_.evict_slow(slow);
}

void watcher::watch()
{
    while (membership_.terminal_error() == 0) {
        pollfd pollers[] = {{stop_.fd(), POLLIN, 0}, {arbiter_.lost_fd(), POLLIN, 0}, {lost_.found.fd(), POLLIN, 0}};
        poll(pollers, 3, poll_interval_ms);
        if (pollers[0].revents != 0)
            return;
        lost_.found.clear();
        poll_targets();
        // If a thread cannot be created, the next iteration tries again.
        guarded([&] { background_.poll(); });
        const int lost = renewal_.is_fenced() ? RPMA_MIRROR_E_FENCED : arbiter_.lost() ? RPMA_MIRROR_E_ARBITER : 0;
        if (lost != 0) {
            const std::lock_guard guard(membership_);
            guarded([&] {
                membership_.fail_with(lost,
                        lost == RPMA_MIRROR_E_FENCED ? "another writer owns the set"
                                                     : "the lease of the arbiter has expired",
                        settings_.local_number);
            });
        }
    }
}

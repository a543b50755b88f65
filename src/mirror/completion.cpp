// SPDX-License-Identifier: BSD-3-Clause
#include "completion.hpp"

#include <algorithm>

using namespace mirror;

namespace
{

constexpr std::int64_t unwatched_ms = 10; // interval in which a lane is checked whose connections cannot be watched

} // namespace

completion::completion(set_parts &of)
    : settings_(of.configured), membership_(of.members), copies_(of.copies), counted_(of.counted), lost_(of.lost)
{
}

void completion::collect(unsigned lane, lane_state &used) noexcept
{
    poll(lane, used);
    confirm(lane, used);
    find_unresponsive_targets(used);
    update(lane, used);
}

// Calls f for each ticket of a target that has not been confirmed, oldest first.
template<class F>
void completion::each_outstanding(lane_state &used, F &&f) const
{
    const roles now = membership_.now();
    for (std::uint64_t number = used.completed; number < used.started; ++number) {
        posted_flush &posted = used.in_flight[number % lane_state::max_tickets];
        each_copy(now.awaited, [&](unsigned copy) {
            if (posted.tickets[copy] != 0)
                f(*copies_[copy], posted);
        });
    }
}

// The ranges of an evicted target are marked as dirty when its connection is replaced.
bool completion::is_complete(unsigned lane, const posted_flush &posted) const noexcept
{
    bool complete = true;
    each_copy(membership_.now().awaited, [&](unsigned copy) {
        const std::uint64_t ticket = posted.tickets[copy];
        complete = complete && (ticket == 0 || copies_[copy]->region->lane(lane).is_complete(ticket));
    });
    return complete;
}

// Flushes of a lane complete in the order in which they were started.
void completion::update(unsigned lane, lane_state &used) const noexcept
{
    const std::uint64_t before = used.completed;
    while (used.completed < used.started) {
        const posted_flush &oldest = used.in_flight[used.completed % lane_state::max_tickets];
        if (!is_complete(lane, oldest))
            break;
        ++used.completed;
        counted_.flush_time.add(static_cast<std::uint64_t>(replica::now_ns() - oldest.posted_ns));
    }
    if (used.watch && used.completed > std::max(before, used.taken))
        used.watch->raise();
}

// Collects completions of all connections. Another thread evicts failed targets, because an eviction takes time.
void completion::poll(unsigned lane, lane_state &used) noexcept
{
    each_copy(membership_.now().awaited, [&](unsigned copy) {
        replica::region &region = *copies_[copy]->region;
        bool progress = false;
        if (region.lost().error() != 0 || region.lane(lane).poll_completions(&progress) != 0)
            lost_.found.raise();
        if (progress)
            used.progress_ms[copy] = replica::now_ms();
    });
}

void completion::confirm(unsigned lane, lane_state &used) noexcept
{
    each_outstanding(used, [&](remote_copy &c, posted_flush &posted) {
        std::uint64_t &ticket = posted.tickets[c.where.copy];
        if (!c.region->lane(lane).is_complete(ticket))
            return;
        ticket = 0;
        if (settings_.slow_count == 0)
            return;
        if ((posted.late & c.bit()) == 0) {
            c.late = 0;
        } else if (++counted_.late, ++c.late >= settings_.slow_count) {
            lost_.slow |= c.bit();
            lost_.found.raise();
        }
    });
}

// Finds silent targets, which confirmed nothing within the timeout of an operation, and late confirmations. A
// confirmation is late only if a call found it outstanding after the limit: the program may make this call late.
void completion::find_unresponsive_targets(lane_state &used) noexcept
{
    const std::int64_t now = replica::now_ms();
    each_outstanding(used, [&](remote_copy &c, posted_flush &posted) {
        if (now - std::max(posted.posted_ms, used.progress_ms[c.where.copy]) >= settings_.operation_ms) {
            c.region->lost().declare(ETIMEDOUT);
            lost_.found.raise();
        }
        if (settings_.slow_count != 0 && now - posted.posted_ms > settings_.slow_ms)
            posted.late |= c.bit();
    });
}

void completion::watch(unsigned lane, lane_state &used) const noexcept
{
    if (!used.watch)
        return;
    const auto watch_until = [&](std::int64_t time_ms) { used.watch->raise_at(time_ms); };
    each_outstanding(used, [&](remote_copy &c, const posted_flush &posted) {
        const unsigned copy = c.where.copy;
        if (c.region->lost().error() != 0)
            return; // its eviction is reported
        if (used.watch->add(copy, c.region->lane(lane), c.region->lost()) != 0)
            watch_until(replica::now_ms() + unwatched_ms);
        watch_until(std::max(posted.posted_ms, used.progress_ms[copy]) + settings_.operation_ms);
        if (settings_.slow_count != 0 && (posted.late & c.bit()) == 0)
            watch_until(posted.posted_ms + settings_.slow_ms + 1);
    });
}

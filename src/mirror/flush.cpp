// SPDX-License-Identifier: BSD-3-Clause
// Data path: does not allocate, takes only the lock of the lane, and makes system calls only for the local copy.
#include "flush.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "failure.hpp"

using namespace mirror;
using replica::lane_request_kind;

flusher::flusher(set_parts &of)
    : settings_(of.configured), membership_(of.members), events_(of.published), local_(of.local), copies_(of.copies),
      counted_(of.counted), may_differ_(of.may_differ), changed_(of.changed), completion_(of),
      lanes_(of.configured.lanes)
{
}

int flusher::check_flushable() const noexcept
{
    if (const int code = membership_.check_usable(); code != 0)
        return code;
    if (const int error = reregister_error_; error != 0)
        return fail(RPMA_MIRROR_E_MEDIA,
                "local copy not registered after a page repair: %s (repair the other bad pages)", std::strerror(error));
    return local_.check_file();
}

int flusher::check_ranges(unsigned lane, const rpma_mirror_range *ranges, std::size_t n) const noexcept
{
    if (lane >= lanes_.size())
        return fail(RPMA_MIRROR_E_INVAL, "lane %u: out of range: the set has %zu lanes", lane, lanes_.size());
    if ((ranges == nullptr && n != 0) || n > RPMA_MIRROR_MAX_RANGES)
        return fail(RPMA_MIRROR_E_INVAL, "ranges: NULL, or more than %d", RPMA_MIRROR_MAX_RANGES);
    for (std::size_t i = 0; i < n; ++i)
        if (!replica::range_fits({ranges[i].offset, ranges[i].length}, 0, local_.length()))
            return fail(RPMA_MIRROR_E_INVAL, "range %zu: outside the set", i);
    return 0;
}

// Calls send() for a lane of each target, awaited ones first. Stores ranges and tickets in the empty `flush`.
template<class Send>
flusher::deadline flusher::post(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, const Send &send,
        posted_flush &flush, failed_copies &failed) noexcept
{
    flush.posted_ns = replica::now_ns();
    flush.posted_ms = flush.posted_ns / 1'000'000;
    const deadline until(settings_.operation_ms, flush.posted_ms);
    for (std::size_t i = 0; i < n; ++i)
        flush.ranges.add({ranges[i].offset, ranges[i].length});
    const auto send_awaited = [&](unsigned copy) {
        replica::region_lane &to = copies_[copy]->region->lane(lane);
        if (const int error = send(to); error != 0)
            failed.add(copy, error);
        else
            flush.tickets[copy] = to.ticket();
    };
    const roles now = membership_.now();
    each_copy(now.awaited, send_awaited);
    each_copy(now.syncing | now.away, [&](unsigned copy) {
        remote_copy &c = *copies_[copy];
        c.mark(flush.ranges);
        // Race-free: either a starting resync finds these marks, or this check finds that the copy receives flushes.
        if ((membership_.now().away & c.bit()) != 0)
            return;
        // One connection carries the flushes and the resync data, so that older data does not overtake newer data.
        const auto claim = c.lock_resync_lane(until);
        if (claim == remote_copy::lane_claim::timed_out)
            failed.add(copy, ETIMEDOUT);
        if (claim != remote_copy::lane_claim::locked)
            return;
        const std::lock_guard guard(c.resync_lane_lock, std::adopt_lock);
        const roles then = membership_.now();
        const bool sends = (then.syncing & c.bit()) != 0;
        if (sends && (c.lane().has_capacity(static_cast<std::uint32_t>(n) + 1) || !c.may_miss()))
            send(c.lane());
        else if ((then.awaited & c.bit()) != 0)
            send_awaited(copy);
    });
    return until;
}

namespace
{

void drop_ticket(remote_copy &c, posted_flush &posted)
{
    if (std::exchange(posted.tickets[c.where.copy], 0) != 0)
        c.mark(posted.ranges);
}

int flush_local_copy(const local_copy &local, const rpma_mirror_range *ranges, std::size_t n, bool deep)
{
    int error = 0;
    for (std::size_t i = 0; i < n && error == 0; ++i) {
        const replica::range r{ranges[i].offset, ranges[i].length};
        if (r.length != 0)
            error = local.flush(r, deep);
    }
    local.drain();
    return error;
}

// Functor that posts all ranges, followed by one flush.
class ranges_to_send
{
public:
    ranges_to_send(const rpma_mirror_range *ranges, std::size_t n, bool deep)
        : ranges_(ranges), n_(n), kind_(deep ? lane_request_kind::deep_flush : lane_request_kind::flush)
    {
    }

    int operator()(replica::region_lane &to) const noexcept
    {
        bool any = false;
        for (std::size_t i = 0; i < n_; ++i) {
            if (ranges_[i].length == 0)
                continue;
            any = true;
            if (const int error = to.flush({ranges_[i].offset, ranges_[i].length}); error != 0)
                return error;
        }
        return any ? to.submit(kind_) : 0;
    }

private:
    const rpma_mirror_range *const ranges_;
    const std::size_t n_;
    const lane_request_kind kind_;
};

} // namespace

// Reports an error of the whole local copy, because the system does not report which pages failed.
int flusher::on_local_copy_error(int error) noexcept
{
    may_differ_ = true;
    // A callback that flushes gets only the error code, because reject_reentry() throws.
    guarded([&] {
        membership_.reject_reentry();
        rpma_mirror_error failed = make_error(settings_.local_number, RPMA_MIRROR_E_MEDIA, error);
        failed.length = local_.length();
        const std::lock_guard guard(membership_);
        events_.publish(RPMA_MIRROR_EVENT_MEDIA, settings_.local_number, membership_.record(), failed);
    });
    return fail(RPMA_MIRROR_E_MEDIA, "cannot flush the local copy: %s", std::strerror(error));
}

// Waits for each target in turn. Targets that another thread has evicted might not have the ranges.
void flusher::await(unsigned lane, posted_flush &flush, const deadline &until, failed_copies &failed,
        bool progress_extends) noexcept
{
    for (unsigned copy = 0; copy < flush.tickets.size(); ++copy) {
        std::uint64_t &ticket = flush.tickets[copy];
        if (ticket == 0)
            continue;
        remote_copy &c = *copies_[copy];
        const std::int64_t waited_ms = settings_.slow_count == 0 ? 0 : replica::now_ms();
        if ((membership_.now().awaited & c.bit()) == 0) {
            c.mark(flush.ranges);
        } else if (const int error = c.region->lane(lane).wait(ticket, until, progress_extends); error != 0) {
            failed.add(copy, error);
        } else {
            ticket = 0;
            if (settings_.slow_count != 0)
                record_confirmation(c, flush.posted_ms, waited_ms, failed);
        }
    }
}

// A confirmation counts as late only if the flush waited for it, and not for another target or for the program.
void flusher::record_confirmation(
        remote_copy &c, std::int64_t posted_ms, std::int64_t waited_ms, failed_copies &failed) noexcept
{
    const std::int64_t now = replica::now_ms();
    if (now - posted_ms <= settings_.slow_ms) {
        c.late = 0;
    } else if (now != waited_ms) {
        ++counted_.late;
        if (++c.late >= settings_.slow_count)
            failed.slow |= c.bit();
    }
}

int flusher::outcome(const failed_copies &failed, const posted_ranges &ranges) noexcept
{
    int code = failed.bits == 0 ? 0 : membership_.evict(failed, ranges);
    if (code == 0 && failed.slow != 0)
        code = membership_.evict_slow(failed.slow);
    return code == 0 ? membership_.check_usable() : code;
}

int flusher::flush_once(
        unsigned lane, const rpma_mirror_range *ranges, std::size_t n, bool deep, std::int64_t &started_ns) noexcept
{
    posted_flush posted;
    failed_copies failed;
    int local_error = 0;
    {
        const std::lock_guard guard(lanes_[lane].lock);
        const deadline until = post(lane, ranges, n, ranges_to_send(ranges, n, deep), posted, failed);
        local_error = flush_local_copy(local_, ranges, n, deep);
        await(lane, posted, until, failed);
        completion_.update(lane, lanes_[lane]);
    }
    started_ns = started_ns == 0 ? posted.posted_ns : started_ns;
    const int result = outcome(failed, posted.ranges);
    return result != 0 || local_error == 0 ? result : on_local_copy_error(local_error);
}

int flusher::flush(unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags) noexcept
{
    const no_cancellation uncanceled;
    const bool deep = (flags & RPMA_MIRROR_F_DEEP) != 0;
    if (const int code = check_flushable(); code != 0 || n == 0)
        return code;
    counted_.add_flush(ranges, n);
    std::int64_t started_ns = 0;
    const bool ordered = (flags & RPMA_MIRROR_F_LAST_RANGE_ORDERED) != 0 && n > 1;
    int code = flush_once(lane, ranges, ordered ? n - 1 : n, deep, started_ns);
    if (code == 0 && ordered)
        code = flush_once(lane, ranges + n - 1, 1, deep, started_ns);
    if (code == 0)
        counted_.flush_time.add(static_cast<std::uint64_t>(replica::now_ns() - started_ns));
    return code;
}

int flusher::flush_start(
        unsigned lane, const rpma_mirror_range *ranges, std::size_t n, unsigned flags, std::uint64_t *ticket) noexcept
{
    const no_cancellation uncanceled;
    lane_state &used = lanes_[lane];
    if (const int code = check_flushable(); code != 0)
        return code;
    const bool deep = (flags & RPMA_MIRROR_F_DEEP) != 0;
    if (used.started >= lane_state::max_tickets) {
        const int oldest = wait_for_ticket(lane, used.started - lane_state::max_tickets + 1, -1);
        if (oldest != 0)
            return oldest;
    }
    counted_.add_flush(ranges, n);
    posted_flush &posted = used.in_flight[used.started % lane_state::max_tickets];
    failed_copies failed;
    int local_error = 0;
    {
        const std::lock_guard guard(used.lock);
        if (used.started >= lane_state::max_tickets)
            used.completed = std::max(used.completed, used.started - lane_state::max_tickets + 1);
        // The targets have confirmed the tickets of the slot, but the local copy may have failed.
        for (const auto &c : copies_)
            if (c)
                drop_ticket(*c, posted);
        posted = {};
        post(lane, ranges, n, ranges_to_send(ranges, n, deep), posted, failed);
        local_error = flush_local_copy(local_, ranges, n, deep);
    }
    const int result = outcome(failed, posted.ranges);
    if (result != 0 || local_error != 0)
        return result != 0 ? result : on_local_copy_error(local_error);
    const std::lock_guard guard(used.lock);
    *ticket = ++used.started;
    completion_.update(lane, used);
    completion_.watch(lane, used);
    return 0;
}

int flusher::flush_wait(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept
{
    const no_cancellation uncanceled;
    if (const int code = wait_for_ticket(lane, ticket, timeout_ms); code != 0)
        return code;
    lane_state &used = lanes_[lane];
    const std::lock_guard guard(used.lock);
    used.taken = std::max(used.taken, ticket);
    return 0;
}

int flusher::wait_for_ticket(unsigned lane, std::uint64_t ticket, int timeout_ms) noexcept
{
    lane_state &used = lanes_[lane];
    if (ticket == 0 || ticket > used.started)
        return fail(RPMA_MIRROR_E_INVAL, "ticket %zu: not issued on this lane", static_cast<std::size_t>(ticket));
    if (const int code = membership_.check_usable(); code != 0)
        return code;
    if (used.started - ticket >= lane_state::max_tickets)
        return 0; // flush_start() has already waited for it
    const bool full_timeout = timeout_ms < 0 || timeout_ms >= settings_.operation_ms;
    posted_flush &waited = used.in_flight[(ticket - 1) % lane_state::max_tickets];
    failed_copies failed;
    {
        const std::lock_guard guard(used.lock);
        const deadline until(full_timeout ? settings_.operation_ms : std::max(timeout_ms, 1));
        await(lane, waited, until, failed, full_timeout);
        completion_.update(lane, used);
    }
    bool late = false;
    each_copy(failed.bits, [&](unsigned copy) {
        if (!full_timeout && failed.errors[copy] == ETIMEDOUT) {
            late = true;
            failed.bits &= ~(1U << copy);
        }
    });
    if (const int code = outcome(failed, waited.ranges); code != 0)
        return code;
    return late ? fail(RPMA_MIRROR_E_TIMEOUT, "the flush is still in progress") : 0;
}

int flusher::wait_for_all() noexcept
{
    int code = 0;
    for (unsigned lane = 0; lane < lanes_.size() && code == 0; ++lane)
        if (lanes_[lane].started != 0)
            code = wait_for_ticket(lane, lanes_[lane].started, -1);
    return code;
}

int flusher::atomic_write(unsigned lane, std::uint64_t offset, std::uint64_t value) noexcept
{
    const no_cancellation uncanceled;
    lane_state &used = lanes_[lane];
    if (const int code = check_flushable(); code != 0)
        return code;
    if (used.started != 0)
        if (const int code = wait_for_ticket(lane, used.started, -1); code != 0)
            return code;
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t *>(local_.address() + offset)).store(value);
    const rpma_mirror_range all{offset, sizeof(value)};
    posted_flush posted;
    failed_copies failed;
    int local_error = 0;
    {
        const std::lock_guard guard(used.lock);
        char bytes[sizeof(value)];
        std::memcpy(bytes, &value, sizeof(value));
        const auto send = [&](replica::region_lane &to) {
            const int error = to.flush_word(offset, bytes);
            return error != 0 ? error : to.submit(lane_request_kind::flush);
        };
        const deadline until = post(lane, &all, 1, send, posted, failed);
        local_error = flush_local_copy(local_, &all, 1, false);
        await(lane, posted, until, failed);
        completion_.update(lane, used);
    }
    const int result = outcome(failed, posted.ranges);
    return result != 0 || local_error == 0 ? result : on_local_copy_error(local_error);
}

int flusher::read(unsigned lane, unsigned copy, void *to, range r) noexcept
{
    const no_cancellation uncanceled;
    if (copy == settings_.local_number) {
        std::memcpy(to, local_.address() + r.offset, r.length);
        return 0;
    }
    if (const int code = membership_.check_usable(); code != 0)
        return code;
    failed_copies failed;
    {
        const std::lock_guard guard(lanes_[lane].lock);
        const roles now = membership_.now();
        if (copy >= copies_.size() || (now.awaited >> copy & 1) == 0)
            return fail(RPMA_MIRROR_E_STALE, "copy %u is not in sync", copy);
        if (const int error = copies_[copy]->region->lane(lane).read(to, r); error != 0)
            failed.add(copy, error);
        completion_.update(lane, lanes_[lane]);
    }
    if (failed.bits == 0)
        return 0;
    const int code = membership_.evict(failed);
    return code != 0 ? code : fail(error_code_for(failed.errors[copy]), "copy %u: connection lost: copy evicted", copy);
}

int flusher::descriptor_of(unsigned lane)
{
    lane_state &used = lanes_[lane];
    const std::lock_guard guard(used.lock);
    if (!used.watch) {
        used.watch = std::make_unique<lane_watch>(changed_);
        used.watch->raise(); // tickets can be complete already
    }
    return used.watch->fd();
}

// Makes the descriptor unreadable first, so that it reports each event that this call misses.
int flusher::flush_take(unsigned lane, std::uint64_t *tickets, std::size_t *n) noexcept
{
    const no_cancellation uncanceled;
    lane_state &used = lanes_[lane];
    const std::lock_guard guard(used.lock);
    if (used.watch)
        used.watch->clear();
    completion_.collect(lane, used);
    // After the failure of the mirror, flushes are neither waited for nor acknowledged.
    if (const int code = membership_.check_usable(); code != 0)
        return code;
    const std::uint64_t count = std::min<std::uint64_t>(*n, used.completed - used.taken);
    for (std::uint64_t i = 0; i < count; ++i)
        tickets[i] = ++used.taken;
    *n = count;
    if (used.watch && used.taken < used.completed)
        used.watch->raise();
    completion_.watch(lane, used);
    return 0;
}

void flusher::drop_tickets(remote_copy &c)
{
    for (lane_state &lane : lanes_) {
        for (posted_flush &posted : lane.in_flight)
            drop_ticket(c, posted);
        if (lane.watch)
            lane.watch->forget(c.where.copy);
    }
}

// Registers the local copy again after pages were replaced, because a device keeps the old pages pinned. If another bad
// page prevents this, no flush starts before that page is repaired. The caller must hold the membership lock.
void flusher::reregister()
{
    const deadline until(settings_.operation_ms);
    int failed = 0;
    without_lanes([&] {
        for (const auto &c : copies_) {
            if (!c || !c->region || c->region->lost().error() != 0)
                continue;
            const std::lock_guard lane_guard(c->resync_lane_lock);
            if (const int error = c->region->reregister(until); error != 0)
                failed = error;
        }
        for (unsigned lane = 0; lane < lanes_.size(); ++lane)
            completion_.update(lane, lanes_[lane]);
        reregister_error_ = failed;
    });
}

// SPDX-License-Identifier: BSD-3-Clause
// Membership of the set: a change is durable on all copies that stay before it takes effect.
#include "membership.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

using namespace mirror;

namespace mirror
{

int error_code_for(int error)
{
    switch (error) {
    case ETIMEDOUT:
        return RPMA_MIRROR_E_TIMEOUT;
    case EIO:
    case ENOSPC:
        return RPMA_MIRROR_E_MEDIA;
    default:
        return RPMA_MIRROR_E_CONNECTION;
    }
}

[[noreturn]] void lost(const remote_copy &c, int error)
{
    throw failure(
            error_code_for(error), "target " + c.where.name() + ": connection lost: " + std::strerror(error), error);
}

} // namespace mirror

membership::membership(const settings &configured, events &published, arbiter &decider, local_copy &local,
        remote_copies &copies, counters &counted, wakeup &changed)
    : settings_(configured), events_(published), arbiter_(decider), local_(local), copies_(copies), counted_(counted),
      changed_(changed)
{
}

replica::request writer_identity::make_promise_request(const remote_copy &c) const
{
    replica::request r = c.make_request(set);
    to_wire(promise, *r.mutable_promise());
    return r;
}

replica::request writer_identity::make_prepare_request(const remote_copy &c) const
{
    replica::request r = make_promise_request(c);
    r.mutable_prepare();
    return r;
}

int membership::check_usable() const noexcept
{
    if (const int code = terminal_error_; code != 0)
        return fail(code, "mirror failed: %s (reopen the set)", terminal_reason_.c_str());
    if (arbiter_.lost())
        return fail(RPMA_MIRROR_E_ARBITER, "the lease of the arbiter has expired");
    return 0;
}

// Declares a permanent failure: no flush is acknowledged afterwards.
void membership::end(int code, const char *reason, rpma_mirror_event_type type, unsigned copy)
{
    if (terminal_error_ != 0)
        return;
    terminal_reason_.assign(reason);
    terminal_error_ = code;
    set_roles(0, 0);
    for (const auto &c : copies_)
        if (c && c->region)
            c->region->lost().declare(ECANCELED);
    events_.publish(type, copy, record_, make_error(copy, code));
}

void membership::set_roles(std::uint32_t awaited, std::uint32_t syncing)
{
    roles next;
    next.awaited = static_cast<std::uint16_t>(awaited);
    next.syncing = static_cast<std::uint16_t>(syncing);
    for (const auto &c : copies_)
        if (c)
            next.away = static_cast<std::uint16_t>(next.away | (c->bit() & ~(awaited | syncing)));
    roles_ = next;
    changed_.raise();
}

// Removes the targets from flushes.
void membership::leave(std::uint32_t copies)
{
    const roles now = roles_;
    set_roles(now.awaited & ~copies, now.syncing & ~copies);
    each_copy(copies, [&](unsigned copy) {
        ++counted_.evictions;
        events_.publish(RPMA_MIRROR_EVENT_EVICTED, copy, record_, make_error(copy, copies_[copy]->last_error));
    });
}

// Sends a request to all targets, then waits for all. Returns those that failed, with their error codes in `codes`.
template<class F>
std::uint32_t membership::call_targets(
        std::uint32_t copies, const deadline &until, F request_for, std::array<int, replica::max_copies> &codes)
{
    std::uint32_t called = 0, failed = 0;
    std::array<channel::pending_call, replica::max_copies> pending_calls;
    each_copy(copies, [&](unsigned copy) {
        codes[copy] = guarded(
                [&] { pending_calls[copy] = copies_[copy]->control->start_call(request_for(*copies_[copy]), until); });
        (codes[copy] == 0 ? called : failed) |= 1U << copy;
    });
    each_copy(called, [&](unsigned copy) {
        remote_copy &c = *copies_[copy];
        codes[copy] = guarded(
                [&] { c.last_state = replica::from_wire(c.control->finish_call(pending_calls[copy], until).state()); });
        failed |= codes[copy] == 0 ? 0U : 1U << copy;
    });
    return failed;
}

// Commits the record on the targets. Returns those that failed. Throws E_FENCED.
std::uint32_t membership::commit_on_targets(const replica::mirror_record &next, const deadline &until)
{
    std::array<int, replica::max_copies> codes{};
    const auto commit = [&](const remote_copy &c) {
        replica::request r = writer.make_promise_request(c);
        to_wire(next, *r.mutable_commit()->mutable_record());
        return r;
    };
    const std::uint32_t failed = call_targets(next.in_sync & ~local_bit(), until, commit, codes);
    each_copy(failed, [&](unsigned copy) { copies_[copy]->last_error = codes[copy]; });
    if (std::ranges::find(codes, RPMA_MIRROR_E_FENCED) != codes.end())
        throw failure(RPMA_MIRROR_E_FENCED, "another writer owns the set");
    return failed;
}

// Calls the eviction function for each copy. If it refuses, the mirror fails and the record does not change.
void membership::call_eviction_function(std::uint32_t leaving)
{
    each_copy(leaving, [&](unsigned copy) {
        const rpma_mirror_error reason = make_error(copy, copies_[copy]->last_error);
        if (settings_.eviction == nullptr || settings_.eviction(settings_.eviction_context, &reason) == 0)
            return;
        const failure stopped(
                RPMA_MIRROR_E_EVICTION_REFUSED, "copy " + std::to_string(copy) + ": eviction refused by the program");
        end(stopped.code(), stopped.what(), RPMA_MIRROR_EVENT_EVICTION_REFUSED, copy);
        throw stopped;
    });
}

// Throws failure if the record must not be committed.
void membership::check_change(const group::record_change &change) const
{
    using verdict = group::record_change::verdict;
    switch (change.check()) {
    case verdict::no_target:
        throw failure(RPMA_MIRROR_E_NO_TARGET, "no target is in sync (policy safety)");
    case verdict::none_left:
        throw failure(RPMA_MIRROR_E_NO_TARGET, "all targets that were in sync before are lost");
    case verdict::unclean:
        throw failure(RPMA_MIRROR_E_UNCLEAN,
                "no target confirmed the close (open the set once more while a target that was in sync responds)");
    case verdict::required_lost:
        throw failure(RPMA_MIRROR_E_INTERRUPTED,
                settings_.names_of(change.required_lost()) +
                        " was in sync and was lost during the opening (open the set again; force opens without it)");
    case verdict::commit:
        return;
    }
}

void membership::check_arbiter() const
{
    arbiter_.commit(record_, deadline(settings_.operation_ms / 2 + 1));
}

// Commits the record at the arbiter, in the local copy and on every target in sync. A target that does not respond is
// removed from the record, and the next version is committed. Each copy that leaves needs the consent of the program,
// except `exempt`. See docs/replication.md for the conditions that the remaining targets must meet.
void membership::commit_record(
        const replica::mirror_record &wanted, std::uint16_t before, std::uint16_t needed, std::uint32_t exempt)
{
    group::record_change change(wanted, local_bit(), before, needed);
    for (std::uint32_t consented = exempt;;) {
        check_change(change);
        const std::uint32_t leaving = record_.in_sync & ~change.next().in_sync & ~consented;
        call_eviction_function(leaving);
        consented |= leaving;
        const replica::mirror_record &next = change.propose(++last_version_);
        // Uses half of the time, because another round might follow a timeout.
        const deadline until(settings_.operation_ms / 2 + 1);
        arbiter_.commit(next, until);
        replica::mirror_state local_state = local_.state();
        local_state.committed = next;
        local_.store(local_state);
        const std::uint32_t failed = commit_on_targets(next, until);
        if (failed == 0) {
            record_ = next;
            if (change.removed() != 0)
                leave(change.removed());
            return;
        }
        change.remove(failed);
        each_copy(failed, [&](unsigned copy) {
            if (copies_[copy]->region)
                copies_[copy]->region->lost().declare(ECONNRESET);
        });
    }
}

void membership::evict(std::uint32_t copies, const std::array<int, replica::max_copies> &errors)
{
    const roles now = roles_;
    copies &= now.awaited | now.syncing;
    if (copies == 0 || terminal_error_ != 0)
        return;
    each_copy(copies, [&](unsigned copy) {
        copies_[copy]->last_error = error_code_for(errors[copy]);
        copies_[copy]->region->lost().declare(errors[copy]);
    });
    replica::mirror_record next = record_;
    next.in_sync = static_cast<std::uint16_t>(next.in_sync & ~copies);
    const std::uint32_t before = record_.in_sync & ~local_bit();
    // If all lanes failed, another writer might have revoked them. Checks this before the targets are treated as lost.
    if (before != 0 && (next.in_sync & ~local_bit()) == 0) {
        std::array<int, replica::max_copies> codes{};
        const auto status = [&](const remote_copy &c) { return c.make_state_request(writer.set); };
        const std::uint32_t unresponsive =
                call_targets(copies, deadline(settings_.operation_ms / 2 + 1), status, codes);
        each_copy(copies & ~unresponsive, [&](unsigned copy) {
            if (copies_[copy]->last_state.promised != writer.promise)
                throw failure(RPMA_MIRROR_E_FENCED, "another writer owns the set");
        });
    }
    if (next != record_)
        commit_record(next, static_cast<std::uint16_t>((next.in_sync & ~local_bit()) == 0 ? 0 : before));
    // Removes the copies from flushes only after the record is committed.
    leave(copies & (roles_.load().awaited | roles_.load().syncing));
    if (before != 0 && (record_.in_sync & ~local_bit()) == 0)
        events_.publish(RPMA_MIRROR_EVENT_NO_TARGET, settings_.local_number, record_);
}

void membership::fail_with(int code, const char *reason, unsigned copy)
{
    end(code, reason,
            code == RPMA_MIRROR_E_FENCED    ? RPMA_MIRROR_EVENT_FENCED
            : code == RPMA_MIRROR_E_ARBITER ? RPMA_MIRROR_EVENT_LEASE_EXPIRED
                                            : RPMA_MIRROR_EVENT_NO_TARGET,
            copy);
}

// A resync can begin after the eviction, so the marks precede it. The lock prevents that one ends in between.
int membership::evict(const failed_copies &failed, const posted_ranges &unconfirmed) noexcept
{
    const auto mark = [&](unsigned copy) {
        // Another thread might have removed the target.
        if (copies_[copy])
            copies_[copy]->mark(unconfirmed);
    };
    if (is_held_by_caller()) {
        each_copy(failed.bits, mark);
        return guarded([&] { reject_reentry(); });
    }
    const std::lock_guard guard(*this);
    each_copy(failed.bits, mark);
    return evict_or_fail(failed);
}

int membership::evict_or_fail(const failed_copies &failed) noexcept
{
    const int code = guarded([&] { evict(failed.bits, failed.errors); });
    if (code != 0 && terminal_error_ == 0) {
        const auto copy = static_cast<unsigned>(std::countr_zero(failed.bits));
        // A local copy whose state cannot be written also fails the mirror, because its content would be unknown.
        guarded([&] { fail_with(code, last_failure(), copy); });
    }
    return terminal_error_ == 0 ? 0 : check_usable();
}

// Evicts slow copies if another target responds, because the record without the slow one needs it.
int membership::evict_slow(std::uint32_t copies) noexcept
{
    if (is_held_by_caller())
        return 0;
    const std::lock_guard guard(*this);
    for (; copies != 0 && terminal_error_ == 0; copies &= copies - 1) {
        const auto copy = static_cast<unsigned>(std::countr_zero(copies));
        const std::uint32_t synced = roles_.load().awaited & record_.in_sync, others = synced & ~(1U << copy);
        if (others == synced || others == 0)
            continue;
        copies_[copy]->late = 0;
        std::array<int, replica::max_copies> codes{};
        const auto status = [&](const remote_copy &c) { return c.make_state_request(writer.set); };
        if (call_targets(others, deadline(settings_.operation_ms / 2 + 1), status, codes) == others)
            continue;
        ++counted_.slow_evictions;
        failed_copies failed;
        failed.add(copy, ETIMEDOUT);
        if (const int code = evict_or_fail(failed); code != 0)
            return code;
    }
    return terminal_error_ == 0 ? 0 : check_usable();
}

void membership::set_consistency_point(std::uint64_t point)
{
    reject_reentry();
    const std::lock_guard guard(*this);
    throw_if_failed(check_usable());
    replica::mirror_record next = record_;
    next.mark = point;
    const auto before = synced_targets();
    const int code = guarded([&] { commit_record(next, before); });
    if (code == 0)
        return;
    // Unless the arbiter failed, the record may be durable, although flushes still wait for some copies that it lacks.
    if (code != RPMA_MIRROR_E_ARBITER)
        fail_with(code, last_failure(), settings_.local_number);
    throw failure(code, last_failure());
}

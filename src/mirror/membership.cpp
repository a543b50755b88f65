// SPDX-License-Identifier: BSD-3-Clause
// Who belongs to the set: each change is durable on all copies that stay before it counts.
#include "set.hpp"

#include <algorithm>

#include "failure.hpp"

using namespace mirror;

namespace mirror
{

int code_of_link(int error)
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

} // namespace mirror

// Nothing is acknowledged from here on.
void rpma_mirror::end(int code, const char *reason, rpma_mirror_event_type type, unsigned copy)
{
    if (over_ != 0)
        return;
    over_reason_.assign(reason);
    over_ = code;
    set_roles(0, 0);
    for (const auto &c : copies_)
        if (c && c->region)
            c->region->lost().declare(ECANCELED);
    events_.tell(type, copy, record_, make_error(copy, code));
}

void rpma_mirror::set_roles(std::uint32_t awaited, std::uint32_t syncing)
{
    roles next;
    next.awaited = static_cast<std::uint16_t>(awaited);
    next.syncing = static_cast<std::uint16_t>(syncing);
    for (const auto &c : copies_)
        if (c)
            next.away = static_cast<std::uint16_t>(next.away | (c->bit() & ~(awaited | syncing)));
    roles_ = next;
}

// Flushes go on without them.
void rpma_mirror::leave(std::uint32_t copies)
{
    const roles now = roles_;
    set_roles(now.awaited & ~copies, now.syncing & ~copies);
    each_copy(copies, [&](unsigned copy) {
        ++counted_.evictions;
        events_.tell(RPMA_MIRROR_EVENT_EVICTED, copy, record_, make_error(copy, copies_[copy]->last_error));
    });
}

// Asks all at once, so that together they take the time of one. Those that did not answer, and why.
template<class F>
std::uint32_t rpma_mirror::ask_targets(
        std::uint32_t copies, const deadline &until, F request_for, std::array<int, replica::max_copies> &codes)
{
    std::uint32_t asked = 0, failed = 0;
    std::array<channel::question, replica::max_copies> questions;
    each_copy(copies, [&](unsigned copy) {
        codes[copy] =
                guarded([&] { questions[copy] = copies_[copy]->control->begin(request_for(*copies_[copy]), until); });
        (codes[copy] == 0 ? asked : failed) |= 1U << copy;
    });
    each_copy(asked, [&](unsigned copy) {
        remote_copy &c = *copies_[copy];
        codes[copy] = guarded([&] { c.known = c.control->finish(std::move(questions[copy]), until).mirror; });
        failed |= codes[copy] == 0 ? 0U : 1U << copy;
    });
    return failed;
}

// The targets that did not take the record. Throws E_FENCED.
std::uint32_t rpma_mirror::commit_on_targets(const record &next, const deadline &until)
{
    std::array<int, replica::max_copies> codes{};
    const auto commit = [&](const remote_copy &c) {
        replica::request r = about_promise(c, replica::request_type::mirror_commit);
        r.mirror.record = next;
        return r;
    };
    const std::uint32_t failed = ask_targets(next.in_sync & ~home_bit(), until, commit, codes);
    each_copy(failed, [&](unsigned copy) { copies_[copy]->last_error = codes[copy]; });
    if (std::ranges::find(codes, RPMA_MIRROR_E_FENCED) != codes.end())
        throw failure(RPMA_MIRROR_E_FENCED, "another writer has the set");
    return failed;
}

// Copies are about to leave: the program may rather stop, and then the record stays as it is.
void rpma_mirror::ask_program(std::uint32_t leaving)
{
    each_copy(leaving, [&](unsigned copy) {
        const rpma_mirror_error why = make_error(copy, copies_[copy]->last_error);
        if (settings_.eviction == nullptr || settings_.eviction(settings_.eviction_context, &why) == 0)
            return;
        const failure stopped(
                RPMA_MIRROR_E_EVICTION_REFUSED, "the program stopped rather than lose copy " + std::to_string(copy));
        end(stopped.code(), stopped.what(), RPMA_MIRROR_EVENT_EVICTION_REFUSED, copy);
        throw stopped;
    });
}

// Makes the record durable at the arbiter, at home and on each target in sync in it. A target that does not answer
// leaves the record, and all is done again with the next version. The program is asked for each copy that leaves, but
// for those that it drops itself. Of the targets before, those of the record that counted last, one stays; without any
// no other record shares a target with this one. A record that says closed does not lose its last target either.
void rpma_mirror::commit_everywhere(record next, std::uint16_t before, std::uint16_t needed, std::uint32_t dropped)
{
    for (std::uint32_t gone = 0, asked = dropped;;) {
        const std::uint32_t targets = next.in_sync & ~home_bit();
        if (targets == 0 && next.policy == replica::mirror_policy::safety)
            throw failure(RPMA_MIRROR_E_NO_TARGET, "no target is in sync any more, and the policy is safety");
        if (targets != 0 && before != 0 && (targets & before) == 0)
            throw failure(RPMA_MIRROR_E_NO_TARGET, "the targets that were in sync before are all gone");
        // It may have the record that says closed, by which another machine may take the set: this one must need it.
        if (targets == 0 && before != 0 && next.closed)
            throw failure(RPMA_MIRROR_E_UNCLEAN,
                    "no target confirmed the end (open the set once more while a target that was in sync responds)");
        if (const std::uint32_t lost = needed & ~targets; lost != 0)
            throw failure(RPMA_MIRROR_E_INTERRUPTED,
                    settings_.names_of(lost) +
                            " was in sync and was lost during the opening (open the set again; force "
                            "opens without it)");
        const std::uint32_t leaving = record_.in_sync & ~next.in_sync & ~asked;
        ask_program(leaving);
        asked |= leaving;
        next.version = ++last_version_;
        // When it is over there may be another round.
        const deadline until(settings_.operation_ms / 2 + 1);
        arbiter_->commit(next, until);
        replica::mirror_state own = home_.state();
        own.committed = next;
        home_.store(own);
        const std::uint32_t failed = commit_on_targets(next, until);
        if (failed == 0) {
            record_ = next;
            if (gone != 0)
                leave(gone);
            return;
        }
        gone |= failed;
        next.in_sync = static_cast<std::uint16_t>(next.in_sync & ~failed);
        each_copy(failed, [&](unsigned copy) {
            if (copies_[copy]->region)
                copies_[copy]->region->lost().declare(ECONNRESET);
        });
    }
}

void rpma_mirror::evict(std::uint32_t copies, const std::array<int, replica::max_copies> &errors)
{
    const roles now = roles_;
    copies &= now.awaited | now.syncing;
    if (copies == 0 || over_ != 0)
        return;
    each_copy(copies, [&](unsigned copy) {
        copies_[copy]->last_error = code_of_link(errors[copy]);
        copies_[copy]->region->lost().declare(errors[copy]);
    });
    record next = record_;
    next.in_sync = static_cast<std::uint16_t>(next.in_sync & ~copies);
    const std::uint32_t before = record_.in_sync & ~home_bit();
    // Lanes that all broke may have been taken back: then it is not that the targets are lost.
    if (before != 0 && (next.in_sync & ~home_bit()) == 0) {
        std::array<int, replica::max_copies> codes{};
        const auto status = [&](const remote_copy &c) { return c.about(replica::request_type::mirror_status, set_); };
        const std::uint32_t silent = ask_targets(copies, deadline(settings_.operation_ms / 2 + 1), status, codes);
        each_copy(copies & ~silent, [&](unsigned copy) {
            if (copies_[copy]->known.promised != promise_)
                throw failure(RPMA_MIRROR_E_FENCED, "another writer has the set");
        });
    }
    if (next != record_)
        commit_everywhere(next, static_cast<std::uint16_t>((next.in_sync & ~home_bit()) == 0 ? 0 : before));
    // Only now flushes go on without them.
    leave(copies & (roles_.load().awaited | roles_.load().syncing));
    if (before != 0 && (record_.in_sync & ~home_bit()) == 0)
        events_.tell(RPMA_MIRROR_EVENT_NO_TARGET, settings_.home_copy, record_);
}

// A change of the membership has failed with that code.
void rpma_mirror::end_by(int code, const char *reason, unsigned copy)
{
    end(code, reason,
            code == RPMA_MIRROR_E_FENCED    ? RPMA_MIRROR_EVENT_FENCED
            : code == RPMA_MIRROR_E_ARBITER ? RPMA_MIRROR_EVENT_LEASE_EXPIRED
                                            : RPMA_MIRROR_EVENT_NO_TARGET,
            copy);
}

int rpma_mirror::evict(const failed_copies &failed) noexcept
{
    if (membership_.is_held_here())
        return guarded([&] { membership_.refuse_holder(); });
    const std::lock_guard hold(membership_);
    const int code = guarded([&] { evict(failed.bits, failed.errors); });
    if (code != 0 && over_ == 0) {
        const auto copy = static_cast<unsigned>(std::countr_zero(failed.bits));
        // A home copy whose state cannot be written is over as well: nobody could tell what it has.
        guarded([&] { end_by(code, last_failure(), copy); });
    }
    return over_ == 0 ? 0 : over();
}

void rpma_mirror::mark_consistent(std::uint64_t mark)
{
    membership_.refuse_holder();
    const std::lock_guard hold(membership_);
    if (const int code = over(); code != 0)
        throw failure(code, last_failure());
    record next = record_;
    next.mark = mark;
    const auto before = static_cast<std::uint16_t>(record_.in_sync & ~home_bit());
    const int code = guarded([&] { commit_everywhere(next, before); });
    if (code == 0)
        return;
    // Without the arbiter nothing has changed. Else a record may be durable that lacks copies for which flushes still
    // wait.
    if (code != RPMA_MIRROR_E_ARBITER)
        end_by(code, last_failure(), settings_.home_copy);
    throw failure(code, last_failure());
}

// SPDX-License-Identifier: BSD-3-Clause
#include "opening.hpp"

#include "attach.hpp"

#include <algorithm>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

opening::opening(set_parts &of, comparer &with, int time_ms)
    : discovery(of), parts_(of), comparer_(with), time_ms_(time_ms)
{
}

bool opening::open_local_copy()
{
    if (!local_.open_state())
        return false;
    check_local_copy();
    membership_.writer.set = local_.state().set;
    newest_ = local_.state().committed;
    return true;
}

void opening::create_local_copy(std::uint64_t length)
{
    replica::mirror_state first;
    first.set = membership_.writer.set;
    first.copy = settings_.local_number;
    first.length = length;
    local_.make(first);
}

void opening::choose_source(bool force)
{
    if (newest_.epoch == 0)
        throw_not_found("set creation incomplete (run create again)");
    group::opening_facts facts;
    facts.newest = newest_;
    facts.required = required_targets(newest_);
    facts.responded = responded();
    facts.changed = changed();
    each_copy(facts.responded, [&](unsigned copy) { facts.records[copy] = copies_[copy]->last_state.committed; });
    const replica::stamp_match match = local_.match();
    facts.local_is_newest = local_is_newest();
    facts.local_is_same = match == replica::stamp_match::same;
    facts.local_may_be_same = match == replica::stamp_match::unknown;
    facts.newest_is_arbiters = newest_ == arbiters_;
    facts.force = force;
    const group::source_choice choice = group::choose_source(facts);
    check_choice(choice);
    needed_ = choice.candidates;
    overrides_ = choice.overrides;
    source_ = choice.is_local ? settings_.local_number : choice.source;
    const auto sentence = [&](rpma_mirror_source_reason reason, const std::string &text) {
        report_.reason = reason;
        report_.reason_text[text.copy(report_.reason_text, sizeof(report_.reason_text) - 1)] = '\0';
    };
    if (choice.is_local && match == replica::stamp_match::changed)
        sentence(RPMA_MIRROR_SOURCE_FORCED, "the local file was replaced or changed, and force was used");
    else if (choice.is_local)
        sentence(RPMA_MIRROR_SOURCE_LOCAL_NEWEST, "the local copy was in sync in the newest record");
    else if (overrides_)
        sentence(RPMA_MIRROR_SOURCE_FORCED, "not all copies in sync responded, and force was used");
    else if (facts.local_is_newest)
        sentence(RPMA_MIRROR_SOURCE_LOCAL_CHANGED, "the local file may have changed while the set was closed");
    else
        sentence(RPMA_MIRROR_SOURCE_TARGET_NEWEST, "this target has the newest record, which the local copy lacks");
}

void opening::check_choice(const group::source_choice &choice) const
{
    using group::obstacle;
    switch (choice.obstacle) {
    case obstacle::silent:
        throw_incomplete(choice.missing, RPMA_MIRROR_E_INCOMPLETE, "opening may lose data");
    case obstacle::local_changed:
        reject_changed(settings_);
    case obstacle::targets_changed:
        throw failure(RPMA_MIRROR_E_CHANGED, settings_.names_of(changed()) +
                                                     ": was replaced or changed while no writer used it (open the set "
                                                     "on the machine that wrote last; "
                                                     "force uses the copy as it is)");
    case obstacle::writer_alone:
        throw failure(RPMA_MIRROR_E_UNFOUND,
                "copy " + std::to_string(newest_.writer_copy) +
                        ", which wrote last, may have continued alone (open the set on its machine; force uses another "
                        "copy and loses newer data)");
    case obstacle::no_source:
        throw failure(RPMA_MIRROR_E_DOWN, "no copy that was in sync responds (start a target)");
    case obstacle::none:
        return;
    }
}

// Returns the length of the copies in sync in the newest record. It is that of the set, unless growth was interrupted.
std::uint64_t opening::source_length() const
{
    return source_ == settings_.local_number ? local_.state().length : copies_[source_]->last_state.length;
}

void opening::check_lengths(const opening_request &request) const
{
    const std::uint64_t set_length = source_length();
    check_length(set_length);
    if (request.grow_to != 0 && request.grow_to < set_length)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: cannot shrink from " + std::to_string(set_length) +
                                                   " to " + std::to_string(request.grow_to) + " bytes");
}

// Maps the local copy with the length of the source, or maps it again.
void opening::map_local_copy(const opening_request &request)
{
    const std::uint64_t required_length = source_length();
    if (request.mapped != nullptr) {
        if (local_.state().length != required_length)
            throw failure(RPMA_MIRROR_E_INVAL, "local copy: has " + std::to_string(local_.state().length) +
                                                       " bytes, but the set has " + std::to_string(required_length) +
                                                       " (resynchronize it with rpma-mirror resync)");
        return local_.adopt(request.mapped, request.mapped_length);
    }
    if (local_.state().length > required_length)
        local_.set_length(required_length);
    local_.map(request.hint, std::max({required_length, request.grow_to, settings_.max_length}));
    if (local_.length() < required_length)
        extend_local_copy(required_length);
}

void opening::extend_local_copy(std::uint64_t length)
{
    local_.extend(length, membership_);
    local_.add_extension();
    local_.set_length(length);
}

// Levels above RPMA_MIRROR_LEVEL_CPU_FLUSHED concern the network, which the local copy does not use.
void opening::check_local_level() const
{
    if (local_.level() < std::min(settings_.min_level, RPMA_MIRROR_LEVEL_CPU_FLUSHED))
        throw failure(RPMA_MIRROR_E_LEVEL_TOO_LOW, "local copy: persistence level too low");
}

void opening::attach_all(const deadline &until)
{
    each_in_parallel(responded(), scope::needed, until, [&](remote_copy &c, const deadline &within) {
        connected created = attach(parts_, c, *c.control, c.last_state.length, within);
        c.region = std::move(created.region);
        c.level = created.level;
    });
}

// Makes all copies long enough, durably, before the local copy gets the new length. If it fails before that, no length
// has changed. Later openings give the other copies the length of their source.
void opening::grow(std::uint64_t length)
{
    const std::uint32_t resizing = responded();
    each_in_parallel(resizing, scope::needed, deadline(time_ms_), [&](remote_copy &c, const deadline &within) {
        c.last_state = resize(membership_, c, *c.control, length, true, within);
    });
    each_copy(resizing & ~responded(), [&](unsigned copy) {
        const int code = copies_[copy]->last_error;
        if (code != RPMA_MIRROR_E_TIMEOUT && code != RPMA_MIRROR_E_CONNECTION)
            throw *copies_[copy]->error;
    });
    choose_source(false);
    if (local_.match() == replica::stamp_match::changed)
        throw failure(RPMA_MIRROR_E_CHANGED,
                settings_.local_path + ": was replaced or changed while the set did not have it open (resynchronize it "
                                       "with rpma-mirror resync before)");
    extend_local_copy(length);
}

void opening::commit_first_record(bool force)
{
    record first = group::first_record(
            membership_.writer.promise, newest_, responded() | membership_.local_bit(), settings_.target_copies());
    first.writer_copy = settings_.local_number;
    first.policy = settings_.policy;
    // A forced source might not have been in sync in the newest record, so its own consistency point is used.
    const bool has_newest = source_ == settings_.local_number || (newest_.in_sync >> source_ & 1) != 0;
    first.mark = has_newest ? newest_.mark : copies_[source_]->last_state.committed.mark;
    const auto needed = static_cast<std::uint16_t>(force ? 0 : needed_);
    local_.accept();
    const std::lock_guard guard(membership_);
    membership_.commit_record(first, needed, needed);
    membership_.set_roles(membership_.synced_targets(), 0);
    each_copy(membership_.synced_targets(), [&](unsigned copy) { copies_[copy]->was_synced = true; });
}

// Returns whether the loss of a target that responded before caused the error. A rejection would be repeated.
bool opening::is_interrupted(int code) const
{
    if (code != RPMA_MIRROR_E_INCOMPLETE && code != RPMA_MIRROR_E_DOWN)
        return code == RPMA_MIRROR_E_INTERRUPTED;
    return std::ranges::any_of(copies_, [](const auto &c) {
        return c && c->control && !c->responded &&
               (c->last_error == RPMA_MIRROR_E_CONNECTION || c->last_error == RPMA_MIRROR_E_TIMEOUT);
    });
}

rpma_mirror_recovery_report opening::open_set(const opening_request &request)
{
    const bool force = request.force;
    const bool found = open_local_copy();
    find_set(deadline(time_ms_ / 4 + 1));
    // A rejection after this point stops the current writer, so most conditions are checked before.
    acquire_from_arbiter(false, deadline(time_ms_ / 4 + 1));
    choose_source(force);
    check_lengths(request);
    if (!found)
        create_local_copy(source_length());
    else if (local_.state().promised.epoch == 0 && local_.state().committed.epoch == 0)
        local_.make_data(local_.state().length);
    map_local_copy(request);
    check_local_level();
    try {
        take_over(request);
    } catch (const failure &error) {
        // Adds the content to the stamp again.
        if (source_ == settings_.local_number)
            guarded([&] { local_.store(local_.state()); });
        if (is_interrupted(error.code()))
            throw interrupted_opening(error);
        throw;
    }
    report_.size = sizeof(report_);
    report_.source = source_;
    report_.responded = responded();
    report_.in_sync = membership_.record().in_sync;
    report_.epoch = membership_.record().epoch;
    report_.consistency_point = membership_.record().mark;
    return report_;
}

// Fences the previous writer, makes the copies equal and commits the first record.
void opening::take_over(const opening_request &request)
{
    const bool force = request.force;
    // A step leaves the unused part of its share to the steps after it.
    const deadline until(time_ms_ / 2 + 1);
    acquire_epoch(false, overrides_, until.share(3));
    replica::mirror_state local_state = local_.state();
    if (local_is_newest())
        local_state.committed = newest_;
    local_state.promised = membership_.writer.promise;
    local_.store(local_state);
    prepare_all(until.share(2));
    choose_source(force);
    // The mapped file can have other content and cannot be the source, or the previous writer has grown the set.
    if (source_length() != local_.length()) {
        check_lengths(request);
        map_local_copy(request);
    }
    report_.was_clean = newest_.closed;
    const bool grows = request.grow_to > local_.length();
    if (grows)
        grow(request.grow_to);
    attach_all(grows ? deadline(time_ms_ / 2 + 1) : until.share(1));
    choose_source(force);
    for (const auto &c : copies_)
        if (c)
            c->set_length(local_.length());
    resync_copies(force);
    choose_source(force);
    commit_first_record(force);
}

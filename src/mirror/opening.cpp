// SPDX-License-Identifier: BSD-3-Clause
// Opening a set for writing, which promotes this machine if another one had the set (docs/replication.md).
#include "opening.hpp"

#include "attach.hpp"

#include <algorithm>

#include "failure.hpp"
#include "step.hpp"

using namespace mirror;

opening::opening(set_parts &of, comparer &with) : discovery(of), parts_(of), comparer_(with) {}

bool opening::open_local_copy()
{
    if (!local_.open_state())
        return false;
    check_local_copy();
    membership_.identify(local_.state().set);
    newest_ = local_.state().committed;
    return true;
}

// Creates the local copy on a machine that opens the set for the first time.
void opening::create_local_copy(std::uint64_t length)
{
    replica::mirror_state first;
    first.set = membership_.set();
    first.copy = settings_.local_number;
    first.length = length;
    if (settings_.length != 0 && settings_.length != length)
        throw failure(RPMA_MIRROR_E_INVAL, "length of the set: " + std::to_string(length) + " bytes, but " +
                                                   std::to_string(settings_.length) + " in the configuration");
    local_.make(first);
}

void opening::choose_source(bool force)
{
    const auto sentence = [&](rpma_mirror_source_reason reason, const std::string &why) {
        report_.reason = reason;
        report_.reason_text[why.copy(report_.reason_text, sizeof(report_.reason_text) - 1)] = '\0';
    };
    if (newest_.epoch == 0)
        throw failure(RPMA_MIRROR_E_NOT_FOUND, "set creation incomplete (run create again)");
    needed_ = needed_targets(newest_);
    const std::uint32_t missing = needed_ & ~answered();
    if (missing != 0 && !force)
        throw_incomplete(missing, RPMA_MIRROR_E_INCOMPLETE, "opening may lose data");
    overrides_ = missing != 0;
    needed_ &= answered() & ~changed();
    using replica::stamp_match;
    const bool own = local_is_newest();
    const stamp_match match = local_.match();
    if (own && (match == stamp_match::same || (needed_ == 0 && (force || match == stamp_match::unknown)))) {
        source_ = settings_.local_number;
        if (match == stamp_match::changed)
            sentence(RPMA_MIRROR_SOURCE_FORCED, "the local file was replaced or changed, and force was used");
        else
            sentence(RPMA_MIRROR_SOURCE_LOCAL_NEWEST, "the local copy was in sync in the newest record");
        return;
    }
    if (own && needed_ == 0)
        local_.reject_changed();
    if (needed_ == 0 && changed() != 0 && !force)
        throw failure(RPMA_MIRROR_E_CHANGED, settings_.names_of(changed()) +
                                                     ": was replaced or changed while no writer used it (open the set "
                                                     "on the machine that wrote last; "
                                                     "force uses the copy as it is)");
    // The newest record at the arbiter shows whether its writer continued alone: it then has no target in sync.
    const bool alone =
            !own && newest_.policy == replica::mirror_policy::availability && !newest_.closed && newest_ != arbiters_;
    if ((alone || needed_ == 0) && !force)
        throw failure(RPMA_MIRROR_E_UNFOUND,
                "copy " + std::to_string(newest_.writer_copy) +
                        ", which wrote last, may have continued alone (open the set on its machine; force uses another "
                        "copy and loses newer data)");
    overrides_ = missing != 0 || alone || needed_ == 0;
    const std::uint32_t candidates = needed_ != 0 ? needed_ : answered();
    if (candidates == 0)
        throw failure(RPMA_MIRROR_E_DOWN, "no copy that was in sync responds (start a target)");
    source_ = static_cast<unsigned>(std::countr_zero(candidates));
    each_copy(candidates, [&](unsigned copy) {
        if (is_newer(copies_[copy]->known.committed, copies_[source_]->known.committed))
            source_ = copy;
    });
    if (overrides_)
        sentence(RPMA_MIRROR_SOURCE_FORCED, "not all copies in sync responded, and force was used");
    else if (own)
        sentence(RPMA_MIRROR_SOURCE_LOCAL_CHANGED, "the local file may have changed while the set was closed");
    else
        sentence(RPMA_MIRROR_SOURCE_TARGET_NEWEST, "this target has the newest record, which the local copy lacks");
}

// Levels above RPMA_MIRROR_LEVEL_CPU_FLUSHED concern the network, which the local copy does not use.
void opening::check_local_level() const
{
    if (local_.level() < std::min(settings_.min_level, RPMA_MIRROR_LEVEL_CPU_FLUSHED))
        throw failure(RPMA_MIRROR_E_LEVEL_TOO_LOW, "local copy: persistence level too low");
}

void opening::attach_all(const deadline &until)
{
    each_in_parallel(answered(), scope::needed, until, [&](remote_copy &c, const deadline &within) {
        connected created = attach(parts_, c, *c.control, within);
        c.region = std::move(created.region);
        c.level = created.level;
    });
}

void opening::commit_first_record(bool force)
{
    record first;
    first.epoch = membership_.promise().epoch;
    first.writer = membership_.promise().writer;
    first.writer_copy = settings_.local_number;
    first.in_sync = static_cast<std::uint16_t>(answered() | membership_.local_bit());
    first.members = static_cast<std::uint16_t>(newest_.members | first.in_sync);
    for (const target_settings &t : settings_.targets)
        first.members = static_cast<std::uint16_t>(first.members | 1U << t.copy);
    first.policy = settings_.policy;
    // A forced source might not have been in sync in the newest record, so its own consistency point is used.
    const bool has_newest = source_ == settings_.local_number || (newest_.in_sync >> source_ & 1) != 0;
    first.mark = has_newest ? newest_.mark : copies_[source_]->known.committed.mark;
    const auto needed = static_cast<std::uint16_t>(force ? 0 : needed_);
    const std::lock_guard hold(membership_);
    membership_.commit_record(first, needed, needed);
    membership_.set_roles(membership_.synced_targets(), 0);
    each_copy(membership_.synced_targets(), [&](unsigned copy) { copies_[copy]->was_synced = true; });
}

rpma_mirror_recovery_report opening::open_set(void *hint, void *mapped, std::uint64_t length, bool force)
{
    const bool found = open_local_copy();
    connect_all(scope::needed, deadline(settings_.open_ms / 4 + 1));
    const std::uint64_t set_length = identify_set();
    // A rejection after this point stops the writer, so most conditions are checked before.
    ask_arbiter(false, deadline(settings_.open_ms / 4 + 1));
    choose_source(force);
    if (!found)
        create_local_copy(set_length);
    if (mapped == nullptr)
        local_.map(hint);
    else
        local_.adopt(mapped, length);
    check_local_level();
    // A step leaves the unused part of its share to the steps after it.
    const deadline until(settings_.open_ms / 2 + 1);
    acquire_epoch(false, overrides_, until.share(3));
    replica::mirror_state own = local_.state();
    if (local_is_newest())
        own.committed = newest_;
    own.promised = membership_.promise();
    local_.store(own);
    prepare_all(until.share(2));
    choose_source(force);
    report_.was_clean = newest_.closed;
    attach_all(until.share(1));
    choose_source(force);
    for (const auto &c : copies_)
        if (c)
            c->set_length(local_.length());
    resync_copies(force);
    choose_source(force);
    commit_first_record(force);
    report_.size = sizeof(report_);
    report_.source = source_;
    report_.responded = answered();
    report_.in_sync = membership_.record().in_sync;
    report_.epoch = membership_.record().epoch;
    report_.consistency_point = membership_.record().mark;
    return report_;
}

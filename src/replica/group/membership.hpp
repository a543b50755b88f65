// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "group/copies.hpp"
#include "record/mirror_state.hpp"

// Rules of membership: the copies that must respond, the source of the others, and the next record
// (docs/replication.md). Pure functions of the facts; the clients contact the copies.
namespace group
{

using replica::mirror_record;

// Returns whether the responses suffice for an opening. `required`: targets that the newest known record requires;
// targets without a request are ignored. If the local copy is not the source, a target must be it.
bool has_required(const mirror_record &newest, copy_mask required, copy_mask queried, copy_mask responded,
        bool local_is_source = false);

// Returns whether a copy with the record `held` is equal to the other ones that have the newest record. This requires a
// clean close, because caches can have written back unflushed data.
bool is_equal(const mirror_record &newest, const mirror_record &held);

struct opening_facts {
    mirror_record newest;
    copy_mask required = 0;                                   // targets that the newest record requires
    copy_mask responded = 0;                                  // targets
    copy_mask changed = 0;                                    // targets whose content is not that of their record
    std::array<mirror_record, replica::max_copies> records{}; // records of the targets that responded
    bool local_is_newest = false;
    bool local_is_same = false;      // the local file is unchanged
    bool local_may_be_same = false;  // it has no stamp to compare with
    bool newest_is_arbiters = false; // the arbiter has the newest record
    bool force = false;
};

enum class obstacle {
    none,
    silent,        // a target that is required has not responded
    local_changed, // no target can replace the local copy, which was changed
    targets_changed,
    writer_alone, // the writer may have continued without a target
    no_source
};

struct source_choice {
    group::obstacle obstacle = obstacle::none;
    copy_mask missing = 0;    // required targets that have not responded
    copy_mask candidates = 0; // required targets that can be the source
    bool is_local = false;    // the source is the local copy
    bool overrides = false;   // force overrides an obstacle
    unsigned source = 0;      // target, unless the source is local
};

source_choice choose_source(const opening_facts &facts);

// Returns the number of each copy in records, below max_copies. `held`: the states of at most max_copies copies. A copy
// keeps the number of its record, unless a copy with a newer record has the same one. Numbers of former members are
// reused only if all others are taken, because these members can return with an old record.
std::vector<unsigned> assign_numbers(std::span<const replica::mirror_state> held, const mirror_record &newest);

std::uint64_t new_writer_id();

// Returns the first record of an epoch, with version 0: record_change adds 1. `joined`: further members.
mirror_record first_record(
        const replica::mirror_promise &promise, const mirror_record &newest, copy_mask in_sync, copy_mask joined = 0);

// Change of the record, which lasts until all targets in sync in it have stored one version of it.
class record_change
{
public:
    enum class verdict {
        commit,
        no_target, // the policy requires a target
        none_left, // the record would share no target with the one before
        unclean,   // no target has confirmed the clean record, and one might have stored it
        required_lost,
    };

    // `local`: the writer's local copy, or 0. `before`: the record must contain at least one of these targets, or any
    // record is permitted if 0. `required`: targets that must not leave.
    record_change(const mirror_record &next, copy_mask local, copy_mask before, copy_mask required = 0)
        : next_(next), local_(local), before_(before), required_(required)
    {
    }

    verdict check() const;
    // Returns the next version, for all targets in sync.
    const mirror_record &propose(std::uint64_t version);
    // Removes targets that have not stored the record.
    void remove(copy_mask failed);

    const mirror_record &next() const { return next_; }
    copy_mask targets() const { return next_.in_sync & ~local_; }
    copy_mask removed() const { return removed_; }
    copy_mask required_lost() const { return required_ & ~targets(); }

private:
    mirror_record next_;
    const copy_mask local_, before_, required_;
    copy_mask removed_ = 0;
};

} // namespace group

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Breaks the protocol of mirrored sets and pools in many places, one at a time, to see that the simulation finds each.

mutants.py make SOURCE-DIRECTORY TO FILE: writes a copy of a source in which RPMA_MIRROR_MUTANT selects the fault.
mutants.py test PROGRAM: runs the simulation that was built from them.
"""
import concurrent.futures
import os
import subprocess
import sys

# Name, file, original text, and mutated text. @ stands for the condition that the mutant is active.
MUTANTS = [
    ("evict_without_record", "mirror/membership.cpp",
     "    if (next != record_)\n        commit_record(", "    if (@)\n        record_ = next;\n    else if (next != record_)\n        commit_record("),
    ("record_not_in_local_copy", "mirror/membership.cpp", "        local_.store(local_state);\n", "        if (!@)\n            local_.store(local_state);\n"),
    ("record_not_on_targets", "mirror/membership.cpp",
     "const std::uint32_t failed = commit_on_targets(next, until);",
     "const std::uint32_t failed = @ ? 0 : commit_on_targets(next, until);"),
    ("continue_without_target", "replica/group/membership.cpp", "if (targets() == 0 && next_.policy", "if (!@ && targets() == 0 && next_.policy"),
    ("close_without_target", "replica/group/membership.cpp", "if (targets() == 0 && before_ != 0 && next_.closed)",
     "if (!@ && targets() == 0 && before_ != 0 && next_.closed)"),
    ("continue_after_stop", "mirror/membership.cpp", 
     "        end(stopped.code(),", "        if (@)\n            return;\n        end(stopped.code(),"),
    ("do_not_wait", "mirror/flush.cpp", "if (ticket == 0)", "if (@ || ticket == 0)"),
    ("local_copy_not_flushed", "mirror/flush.cpp", "        if (r.length != 0)\n            error = local",
     "        if (r.length != 0 && !@)\n            error = local"),
    ("open_without_all", "replica/group/membership.cpp", "if (choice.missing != 0 && !force)", "if (!@ && choice.missing != 0 && !force)"),
    ("choose_stale_copy", "mirror/discovery.cpp", "return newest_.writer_copy == settings_.local_number &&", "return @ || newest_.writer_copy == settings_.local_number &&"),
    ("wait_for_all", "mirror/discovery.cpp", "return awaited == scope::needed &&", "return !@ && awaited == scope::needed &&"),
    ("wait_without_interruption", "replica/group/step.cpp", "    interrupted_.declare(ETIMEDOUT);", "    if (!@)\n        interrupted_.declare(ETIMEDOUT);"),
    ("no_share_for_a_step", "mirror/opening.cpp", "const deadline until(time_ms_ / 2 + 1);", "const deadline until(@ ? 1 : time_ms_ / 2 + 1);"),
    ("open_without_retry", "mirror/set.cpp", "if (until.left_ms() <", "if (@ || until.left_ms() <"),
    ("record_of_arbiter_ignored", "replica/group/membership.cpp", " !facts.newest_is_arbiters;", " (@ || !facts.newest_is_arbiters);"),
    ("promise_before_decision", "mirror/opening.cpp", "    choose_source(force);\n    check_lengths(request);\n    if (!found)\n        create_local_copy(source_length());",
     "    if (!@) {\n        choose_source(force);\n        check_lengths(request);\n    }\n    source_ = @ ? settings_.local_number : source_;\n    if (!found)\n        create_local_copy(@ ? settings_.length : source_length());"),
    ("length_before_comparison_kept", "mirror/opening.cpp", "    if (source_length() != local_.length()) {", "    if (!@ && source_length() != local_.length()) {"),
    ("fence_before_decision", "mirror/creation.cpp", "    check_fence(force);\n    acquire_epoch(", "    if (!@)\n        check_fence(force);\n    acquire_epoch("),
    ("force_needs_all", "mirror/opening.cpp", "force ? 0 : needed_", "force && !@ ? 0 : needed_"),
    ("force_needs_the_source", "mirror/resync_copies.cpp", "        choose_source(force);\n    }\n    // Flushes the local copy", "        choose_source(force && !@);\n    }\n    // Flushes the local copy"),
    ("force_with_the_next_epoch", "mirror/discovery.cpp", "overrides ? epoch_of_time(", "overrides && !@ ? epoch_of_time("),
    ("trust_changed_file", "replica/group/membership.cpp", "if (is_newest && (facts", "if (is_newest && (@ || facts"),
    ("trust_other_file", "mirror/local_copy.cpp", "!replica::has_stamp(std::span", "!@ && !replica::has_stamp(std::span"),
    ("times_kept_in_the_stamp", "mirror/local_copy.cpp", "next.promised != state().promised)", "!@ && next.promised != state().promised)"),
    ("times_kept_in_the_stamp_of_a_target", "rpmemd/store/stored_copy.cpp", "return next.promised == state().promised ?", "return @ || next.promised == state().promised ?"),
    ("trust_changed_parts", "rpmemd/listen/mirror_set.cpp", "(higher && copy_.has_changed", "(higher && !@ && copy_.has_changed"),
    ("trust_changed_parts_of_the_arbiters_record", "mirror/discovery.cpp", "(has_newest || (required", "(has_newest || (!@ && required"),
    ("writer_mark_lost", "mirror/opening.cpp", "first.mark = has_newest ?", "first.mark = @ ? 0 : has_newest ?"),
    ("copies_not_compared", "mirror/resync_copies.cpp", "group::is_equal(newest_, c.last_state.committed) && (changed", "(@ || group::is_equal(newest_, c.last_state.committed)) && (changed"),
    ("visible_data_not_flushed", "mirror/resync_copies.cpp", "if (!local_equal) {", "if (!@ && !local_equal) {"),
    ("equal_segments_not_flushed", "mirror/compare.cpp", "    if (error == 0)\n        error = c.copy.lane().include(",
     "    if (!@ && error == 0)\n        error = c.copy.lane().include("),
    ("hashes_of_previous_batch", "mirror/compare.cpp", "    hash.set_offset(r.offset);\n",
     "    hash.set_offset(@ && r.offset != 0 ? r.offset - group::max_batch_size : r.offset);\n"),
    ("resync_ends_early", "mirror/resync.cpp", "    comparer_.compare(job, resumed_at, local_.length());\n",
     "    if (!@)\n        comparer_.compare(job, resumed_at, local_.length());\n"),
    ("resync_ignores_missed_flushes", "mirror/resync.cpp", "if (c.missed.exchange(false))", "if (c.missed.exchange(false) && !@)"),
    ("create_without_retry", "mirror/creation.cpp", "if (local_state.committed.epoch != 0 && local_state", "if (@ || local_state.committed.epoch != 0 && local_state"),
    ("join_without_record", "mirror/membership.cpp", "    for (std::uint32_t consented = exempt;;) {",
     "    if (@ && record_.epoch == wanted.epoch && (wanted.in_sync & ~record_.in_sync) != 0) {\n        record_ = wanted;\n        return;\n    }\n    for (std::uint32_t consented = exempt;;) {"),
    ("failed_flush_is_clean", "mirror/membership.cpp", "    const std::lock_guard guard(*this);\n    each_copy(failed.bits, mark);\n",
     "    const std::lock_guard guard(*this);\n    if (!@)\n        each_copy(failed.bits, mark);\n"),
    ("missed_flush_is_clean", "mirror/flush.cpp", "        c.mark(flush.ranges);\n        // Race-free", "        if (!@)\n            c.mark(flush.ranges);\n        // Race-free"),
    ("resync_of_nothing", "mirror/resync.cpp", "                comparer_.compare(job, at, std::min(run_end, end));\n",
     "                if (!@)\n                    comparer_.compare(job, at, std::min(run_end, end));\n"),
    ("grow_without_clearing_the_file", "mirror/local_copy.cpp", "if (error == 0 && used > begin) {", "if (!@ && error == 0 && used > begin) {"),
    ("grow_without_syncing_the_file", "mirror/local_copy.cpp", "    if (error == 0 && fsync(fd) != 0)\n", "    if (!@ && error == 0 && fsync(fd) != 0)\n"),
    ("extend_without_a_stamp", "mirror/local_copy.cpp", "meanwhile = replica::stamp_inodes(files);", "meanwhile = @ ? replica::copy_stamp() : replica::stamp_inodes(files);"),
    ("extend_with_the_size_before", "mirror/local_copy.cpp", "            meanwhile = {.size = replica::copy_stamp::unknown_size};\n",
     "            if (!@)\n                meanwhile = {.size = replica::copy_stamp::unknown_size};\n"),
    ("grow_before_targets_can", "mirror/growth.cpp", "    channels targets;\n    reserve(",
     "    channels targets;\n    if (@) {\n        const std::lock_guard guard(membership_);\n        local_.set_length(length);\n    }\n    reserve("),
    ("grow_without_lengths_of_targets", "mirror/growth.cpp", "resize(membership_, c, *targets[c.where.copy], length, false, within);", "resize(membership_, c, *targets[c.where.copy], length, @, within);"),
    ("grow_without_eviction", "mirror/growth.cpp", "    if (failed.bits != 0)\n", "    if (!@ && failed.bits != 0)\n"),
    ("open_with_the_local_length", "mirror/opening.cpp", "return source_ == settings_.local_number ? local_.state().length", "return @ || source_ == settings_.local_number ? local_.state().length"),
    ("attach_with_the_old_length", "mirror/attach.cpp", "if (copy_length != of.local.length())", "if (!@ && copy_length != of.local.length())"),
    ("extend_part_without_clearing", "rpmemd/store/pool.cpp", "for (std::uint64_t at = from; at < end; at +=", "for (std::uint64_t at = @ ? end : from; at < end; at +="),
    ("extend_part_without_flush", "rpmemd/store/pool.cpp", "    if (from < end)\n        if (const int error = memory.persist", "    if (!@ && from < end)\n        if (const int error = memory.persist"),
    ("extend_part_without_sync", "rpmemd/store/part.cpp", "    if (error == 0 && fsync(file_", "    if (!@ && error == 0 && fsync(file_"),
    ("promise_any_epoch", "rpmemd/listen/mirror_set.cpp", "if (!may_promise(next, claim.promise))", "if (!@ && !may_promise(next, claim.promise))"),
    ("commit_any_epoch", "rpmemd/listen/mirror_set.cpp", "if (!may_commit(next, record))", "if (!@ && !may_commit(next, record))"),
    ("respond_before_revoke", "rpmemd/listen/mirror_set.cpp", "if (higher || revoke_failed_)", "if (!@ && (higher || revoke_failed_))"),
    ("native_flush_into_page_cache", "replica/region/region.cpp", "|| level_ < level::cpu_flushed)", "|| (!@ && level_ < level::cpu_flushed))"),
    ("native_flush_of_one_side", "replica/region/region.cpp", "if (native_lanes != 0 && !target_is_native) {", "if (!@ && native_lanes != 0 && !target_is_native) {"),
    ("half_a_word", "replica/region/region_lane.cpp", "    while (r.length > 0) {\n        const range chunk = first_chunk(r);\n        if (const int error = reserve_entry()",
     "    while (r.length > 0) {\n        range chunk = first_chunk(r);\n        chunk.length = @ && chunk.length > 4 ? 4 : chunk.length;\n        if (const int error = reserve_entry()"),
    ("pool_evicts_without_record", "librpmem/replica_group.cpp", "commit(staying, 0, false) == 0)", "(@ ? (in_sync_ = staying) != 0 : commit(staying, 0, false) == 0))"),
    ("pool_continues_with_any", "librpmem/replica_group.cpp", "change.check() != group::record_change::verdict::commit", "(!@ || next == 0) && change.check() != group::record_change::verdict::commit"),
    ("pool_opens_without_silent", "librpmem/opening.cpp", "if (choice.obstacle == group::obstacle::silent)", "if (!@ && choice.obstacle == group::obstacle::silent)"),
    ("pool_acquires_no_promise", "librpmem/opening.cpp", "            with_record |= bit_of(i);\n", "            with_record |= @ ? 0 : bit_of(i);\n"),
    ("pool_trusts_open_record", "librpmem/opening.cpp", "if (group::is_equal(record_, rep", "if (@ || group::is_equal(record_, rep"),
    ("pool_resyncs_nothing", "librpmem/opening.cpp", "    group::each_run(*different, batch, [&](range run) {\n", "    group::each_run(@ ? 0 : *different, batch, [&](range run) {\n"),
    ("pool_visible_data_not_flushed", "librpmem/opening.cpp", ": flush_batch(to, batch) != 0 ? &to : nullptr;", ": !@ && flush_batch(to, batch) != 0 ? &to : nullptr;"),
    ("pool_promises_any_epoch", "rpmemd/store/pool_record.cpp", "if (error == 0 && !may_promise(", "if (!@ && error == 0 && !may_promise("),
    ("pool_commits_any_epoch", "rpmemd/store/pool_record.cpp", "if (stored.promised != next.promised && !may", "if (!@ && stored.promised != next.promised && !may"),
    ("pool_promise_is_not_stored", "rpmemd/store/pool_record.cpp", "if (error == 0 && next != file.state())", "if (!@ && error == 0 && next != file.state())"),
    ("state_not_durable", "replica/record/mirror_file.cpp", "|| fdatasync(file_.get()) != 0", "|| (!@ && fdatasync(file_.get()) != 0)"),
]
# Mutants that few seeds detect, and that other tests detect, too: RPMA_MIRROR_MUTANTS=all.
RARE = {"equal_segments_not_flushed", "failed_flush_is_clean", "trust_changed_parts_of_the_arbiters_record", "record_of_arbiter_ignored",
        "force_needs_the_source", "extend_without_a_stamp", "extend_with_the_size_before", "open_without_retry",
        "times_kept_in_the_stamp_of_a_target"}
SEEDS = 10000
# Seeds below are known not to detect the mutant, so they are left out.
FIRST_SEEDS = {
    "close_without_target": 1326, "commit_any_epoch": 145, "force_needs_all": 645, "force_with_the_next_epoch": 228,
    "length_before_comparison_kept": 1374, "pool_continues_with_any": 1684, "pool_promises_any_epoch": 950,
    "pool_visible_data_not_flushed": 725, "times_kept_in_the_stamp": 3082, "trust_changed_parts": 352,
    "wait_for_all": 205,
}


def make(directory, to, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        text = file.read()
    for mutant, where, before, after in MUTANTS:
        if where != name:
            continue
        if text.count(before) != 1:
            sys.exit(f"mutants.py: {name} does not have the code of the mutant {mutant} once: mend the mutant")
        text = text.replace(before, after.replace("@", f'is_mutant("{mutant}")'))
    with open(to, "w", encoding="utf-8") as file:
        file.write('#include "mutant.hpp"\n' + text)


def run(program, mutant):
    environment = os.environ | {"RPMA_MIRROR_MUTANT": mutant, "RPMA_MIRROR_SEEDS": str(SEEDS), "RPMA_MIRROR_WORKERS": "1",
                                "RPMA_MIRROR_FIRST_SEED": str(FIRST_SEEDS.get(mutant, 0))}
    done = subprocess.run([program] + ["pools"] * mutant.startswith("pool_"), env=environment, text=True, capture_output=True, timeout=3600)
    found = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    return done.returncode == 1 and found[0] if found else None


def test(program):
    every = os.environ.get("RPMA_MIRROR_MUTANTS") == "all"
    names = [mutant for mutant, *_ in MUTANTS if every or mutant not in RARE]
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, found in zip(names, pool.map(lambda n: run(program, n), names)):
            print(f"{name}: {'caught by ' + found if found else 'NOT CAUGHT'}", flush=True)
            missed += not found
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(*sys.argv[2:])
    else:
        sys.exit(test(sys.argv[2]))

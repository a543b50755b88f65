// SPDX-License-Identifier: BSD-3-Clause
// Rules of membership, over tables of facts about the copies, and the comparison of their segments.
#include "group/batch.hpp"
#include "group/membership.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cmocka_headers.hpp"

using namespace group;

namespace
{

constexpr auto safety = replica::mirror_policy::safety;
constexpr auto availability = replica::mirror_policy::availability;

mirror_record record_of(std::uint64_t epoch, std::uint64_t version, std::uint16_t in_sync)
{
    mirror_record r;
    r.epoch = epoch;
    r.version = version;
    r.members = 0b1111;
    r.in_sync = in_sync;
    return r;
}

TEST(an_opening_waits_for_the_copies_that_the_newest_record_requires)
{
    struct {
        std::uint64_t epoch;
        copy_mask required, asked, responded;
        bool local_is_source, expected;
    } const table[] = {
            {1, 0b0110, 0b1110, 0b0110, false, true}, {1, 0b0110, 0b1110, 0b0010, false, false},
            {1, 0b0110, 0b1110, 0b1010, true, false},
            {1, 0b0110, 0b1010, 0b0010, false, true}, // the other one has no request
            {1, 0b0110, 0b1000, 0, false, false},     // one of the others must be the source
            {1, 0b0110, 0b1000, 0, true, false}, {1, 0, 0b1110, 0, true, true}, {1, 0, 0b1110, 0b1110, false, false},
            {0, 0, 0b1110, 0b1110, false, false}, // no record yet
    };
    for (const auto &row : table)
        assert_int_equal(
                has_required(record_of(row.epoch, 1, 0), row.required, row.asked, row.responded, row.local_is_source),
                row.expected);
}

TEST(only_copies_with_the_clean_record_are_equal)
{
    mirror_record newest = record_of(3, 2, 0b11);
    assert_false(is_equal(newest, newest));
    newest.closed = true;
    assert_true(is_equal(newest, newest));
    mirror_record older = newest;
    older.version = 1;
    assert_false(is_equal(newest, older));
}

opening_facts facts_of(copy_mask required, copy_mask responded, copy_mask changed = 0)
{
    opening_facts facts;
    facts.newest = record_of(5, 1, static_cast<std::uint16_t>(required));
    facts.required = required;
    facts.responded = responded;
    facts.changed = changed;
    return facts;
}

opening_facts forced(opening_facts facts)
{
    facts.force = true;
    return facts;
}

opening_facts with_local(opening_facts facts, bool same, bool may_be_same = false)
{
    facts.local_is_newest = true;
    facts.local_is_same = same;
    facts.local_may_be_same = may_be_same;
    return facts;
}

opening_facts available(opening_facts facts, bool closed = false, bool arbiters = false)
{
    facts.newest.policy = availability;
    facts.newest.closed = closed;
    facts.newest_is_arbiters = arbiters;
    return facts;
}

TEST(the_source_has_all_acknowledged_data)
{
    constexpr unsigned local = 15; // stands for the local copy
    struct {
        opening_facts facts;
        group::obstacle obstacle;
        unsigned source;
        bool overrides;
    } const table[] = {
            // Without a local copy.
            {facts_of(0b0110, 0b1111), obstacle::none, 1, false},
            {facts_of(0b0110, 0b1101), obstacle::silent, 0, false},
            {forced(facts_of(0b0110, 0b1101)), obstacle::none, 2, true},
            {facts_of(0b0110, 0b1111, 0b0010), obstacle::none, 2, false},
            {facts_of(0b0110, 0b1111, 0b0110), obstacle::targets_changed, 0, false},
            {forced(facts_of(0b0110, 0b1111, 0b0110)), obstacle::none, 0, true},
            {facts_of(0, 0b1111), obstacle::writer_alone, 0, false},
            {forced(facts_of(0, 0b1000)), obstacle::none, 3, true},
            {forced(facts_of(0b0110, 0)), obstacle::no_source, 0, true},
            // The local copy has the newest record.
            {with_local(facts_of(0b0110, 0b1111), true), obstacle::none, local, false},
            {with_local(facts_of(0b0110, 0b1101), true), obstacle::silent, 0, false},
            {with_local(facts_of(0b0110, 0b1111), false), obstacle::none, 1, false},
            {with_local(facts_of(0b0110, 0b1111, 0b0110), false, true), obstacle::none, local, false},
            {with_local(facts_of(0, 0b1111), false), obstacle::local_changed, 0, false},
            {forced(with_local(facts_of(0, 0b1111), false)), obstacle::none, local, false},
            {with_local(facts_of(0, 0), false, true), obstacle::none, local, false},
            // The writer may have continued without a target, unless it has the local copy, it has ended, or the
            // arbiter
            // has its record.
            {available(facts_of(0b0110, 0b1111)), obstacle::writer_alone, 0, false},
            {forced(available(facts_of(0b0110, 0b1111))), obstacle::none, 1, true},
            {available(facts_of(0b0110, 0b1111), true), obstacle::none, 1, false},
            {available(facts_of(0b0110, 0b1111), false, true), obstacle::none, 1, false},
            {available(with_local(facts_of(0b0110, 0b1111), false)), obstacle::none, 1, false},
    };
    for (const auto &row : table) {
        const source_choice choice = choose_source(row.facts);
        assert_int_equal(choice.obstacle, row.obstacle);
        if (choice.obstacle != obstacle::none)
            continue;
        assert_int_equal(choice.is_local ? local : choice.source, row.source);
        assert_int_equal(choice.overrides, row.overrides);
    }
    // The newest of several.
    opening_facts facts = facts_of(0b1110, 0b1111);
    facts.records[1] = record_of(5, 1, 0b1110);
    facts.records[2] = record_of(5, 2, 0b1110);
    facts.records[3] = record_of(4, 9, 0b1110);
    assert_int_equal(choose_source(facts).source, 2);
}

TEST(an_epoch_begins_with_a_record_of_its_writer)
{
    mirror_record before = record_of(5, 7, 0b0110);
    before.closed = true;
    const mirror_record first = first_record({6, 99}, before, 0b0011, 0b10000);
    assert_int_equal(first.epoch, 6);
    assert_int_equal(first.version, 0);
    assert_int_equal(first.writer, 99);
    assert_int_equal(first.in_sync, 0b0011);
    assert_int_equal(first.members, 0b11111);
    assert_false(first.closed);
    assert_true(is_newer(first, before));
}

TEST(a_record_shares_a_target_with_the_one_before)
{
    using verdict = record_change::verdict;
    struct {
        replica::mirror_policy policy;
        bool closed;
        copy_mask in_sync, local, before, required, failed;
        verdict expected;
    } const table[] = {
            {safety, false, 0b0111, 0b0001, 0b0110, 0, 0, verdict::commit},
            {safety, false, 0b0111, 0b0001, 0b0110, 0, 0b0010, verdict::commit},
            {safety, false, 0b0111, 0b0001, 0b0110, 0, 0b0110, verdict::no_target},
            {availability, false, 0b0111, 0b0001, 0b0110, 0, 0b0110, verdict::commit},
            {availability, true, 0b0111, 0b0001, 0b0110, 0, 0b0110, verdict::unclean},
            {availability, true, 0b0001, 0b0001, 0, 0, 0, verdict::commit},
            // Target 3 joins, and the others are lost.
            {availability, false, 0b1111, 0b0001, 0b0110, 0, 0b0110, verdict::none_left},
            {safety, false, 0b1110, 0, 0b0110, 0, 0b0110, verdict::none_left},
            {safety, false, 0b1110, 0, 0b0110, 0, 0b1010, verdict::commit},
            {safety, false, 0b0110, 0, 0b0110, 0, 0b0110, verdict::no_target},
            {safety, false, 0b0111, 0b0001, 0b0110, 0b0110, 0b0100, verdict::required_lost},
            {safety, false, 0b0111, 0b0001, 0, 0, 0b0010, verdict::commit},
    };
    for (const auto &row : table) {
        mirror_record next = record_of(2, 1, static_cast<std::uint16_t>(row.in_sync));
        next.policy = row.policy;
        next.closed = row.closed;
        record_change change(next, row.local, row.before, row.required);
        assert_int_equal(change.propose(4).version, 4);
        change.remove(row.failed);
        assert_int_equal(change.check(), row.expected);
        assert_int_equal(change.next().in_sync, row.in_sync & ~row.failed);
        assert_int_equal(change.removed(), row.failed);
        assert_int_equal(change.targets(), row.in_sync & ~row.failed & ~row.local);
        assert_int_equal(change.required_lost(), row.required & row.failed);
    }
}

TEST(each_copy_has_a_number_of_its_own)
{
    struct copy {
        unsigned number;
        std::uint64_t epoch; // epoch of the record, 0 without one
    };
    struct {
        std::vector<copy> copies;
        std::uint16_t members, in_sync;
        std::vector<unsigned> expected;
    } const table[] = {
            {{{0, 0}, {0, 0}}, 0, 0, {0, 1}}, {{{0, 0}, {1, 2}, {0, 0}}, 0b11, 0b11, {2, 1, 3}},
            {{{0, 2}, {0, 0}}, 0b0111, 0b0001, {0, 3}},          // former members can return
            {{{2, 1}, {2, 3}, {1, 3}}, 0b111, 0b110, {3, 2, 1}}, // the number belongs to the copy with the newer record
            {{{0, 0}, {1, 2}, {0, 0}}, 0xffff, 0x00ff, {8, 1, 9}},
            {{{14, 2}, {0, 0}, {0, 0}, {0, 0}}, 0x7fff, 0x7fff, {14, 15, 0, 1}}, // all others in the list are new
    };
    for (const auto &row : table) {
        std::vector<replica::mirror_state> held;
        for (const copy &c : row.copies) {
            replica::mirror_state &answer = held.emplace_back();
            answer.copy = c.number;
            answer.committed.epoch = c.epoch;
        }
        mirror_record newest = record_of(4, 1, row.in_sync);
        newest.members = row.members;
        assert_true(assign_numbers(held, newest) == row.expected);
    }
}

TEST(segments_with_other_hashes_differ)
{
    constexpr std::uint64_t size = replica::segment_size;
    const std::string zeros(4 * 16, '\0');
    std::string other = zeros;
    assert_int_equal(*different_segments(zeros, other), 0);
    other[0] = other[31] = other[63] = 1;
    assert_int_equal(*different_segments(zeros, other), 0b1011);
    assert_false(different_segments(zeros, other.substr(16)).has_value());
    // The last segment is shorter.
    std::vector<replica::range> runs;
    const auto add = [&](replica::range run) {
        runs.push_back(run);
        return 0;
    };
    const replica::range batch{4096, 3 * size + 100};
    assert_int_equal(each_run(0b1011, batch, add), 0);
    assert_int_equal(runs.size(), 2);
    assert_int_equal(runs[0].offset, 4096);
    assert_int_equal(runs[0].length, 2 * size);
    assert_int_equal(runs[1].offset, 4096 + 3 * size);
    assert_int_equal(runs[1].length, 100);
    int calls = 0;
    const auto fail_once = [&](replica::range) { return ++calls == 1 ? 7 : 0; };
    assert_int_equal(each_run(0b1011, batch, fail_once), 7);
    assert_int_equal(calls, 1);
    assert_int_equal(each_run(0, batch, [&](replica::range) { return 7; }), 0);
}

} // namespace

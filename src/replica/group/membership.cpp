// SPDX-License-Identifier: BSD-3-Clause
#include "group/membership.hpp"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <sys/random.h>
#include <system_error>

namespace group
{

bool has_required(
        const mirror_record &newest, copy_mask required, copy_mask queried, copy_mask responded, bool local_is_source)
{
    if (newest.epoch == 0 || ((required & queried) == 0 && (required != 0 || !local_is_source)))
        return false;
    return (required & queried & ~responded) == 0;
}

bool is_equal(const mirror_record &newest, const mirror_record &held)
{
    return newest.closed && held == newest;
}

source_choice choose_source(const opening_facts &facts)
{
    source_choice choice;
    const auto stop = [&](obstacle reason) {
        choice.obstacle = reason;
        return choice;
    };
    const mirror_record &newest = facts.newest;
    const bool is_newest = facts.local_is_newest, force = facts.force;
    choice.missing = facts.required & ~facts.responded;
    choice.candidates = facts.required & facts.responded & ~facts.changed;
    const bool alone = choice.candidates == 0;
    if (choice.missing != 0 && !force)
        return stop(obstacle::silent);
    choice.overrides = choice.missing != 0;
    if (is_newest && (facts.local_is_same || (alone && (force || facts.local_may_be_same)))) {
        choice.is_local = true;
        return choice;
    }
    if (is_newest && alone)
        return stop(obstacle::local_changed);
    if (alone && facts.changed != 0 && !force)
        return stop(obstacle::targets_changed);
    // The newest record at the arbiter shows whether its writer continued alone: it then contains no target in sync.
    const bool may_lack_data = !is_newest && newest.policy == replica::mirror_policy::availability && !newest.closed &&
                               !facts.newest_is_arbiters;
    if ((may_lack_data || alone) && !force)
        return stop(obstacle::writer_alone);
    choice.overrides = choice.missing != 0 || may_lack_data || alone;
    const copy_mask sources = alone ? facts.responded : choice.candidates;
    if (sources == 0)
        return stop(obstacle::no_source);
    choice.source = first_of(sources);
    each_copy(sources, [&](unsigned copy) {
        if (is_newer(facts.records[copy], facts.records[choice.source]))
            choice.source = copy;
    });
    return choice;
}

std::vector<unsigned> assign_numbers(std::span<const replica::mirror_state> held, const mirror_record &newest)
{
    constexpr copy_mask all = bit_of(replica::max_copies) - 1;
    std::vector<std::size_t> order(held.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, replica::is_newer, [&](std::size_t i) { return held[i].committed; });
    std::vector<unsigned> numbers(held.size(), replica::max_copies);
    copy_mask taken = 0;
    for (const std::size_t i : order)
        if (held[i].committed.epoch != 0 && (taken & bit_of(held[i].copy)) == 0) {
            numbers[i] = held[i].copy;
            taken |= bit_of(numbers[i]);
        }
    for (unsigned &number : numbers) {
        if (number != replica::max_copies)
            continue;
        copy_mask available = all & ~taken;
        for (const copy_mask avoided : {newest.members, newest.in_sync})
            if ((available & ~avoided) != 0)
                available &= ~avoided;
        number = first_of(available);
        taken |= bit_of(number);
    }
    return numbers;
}

std::uint64_t new_writer_id()
{
    std::uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            throw std::system_error(errno, std::generic_category(), "cannot get random bytes");
    return number;
}

mirror_record first_record(
        const replica::mirror_promise &promise, const mirror_record &newest, copy_mask in_sync, copy_mask joined)
{
    mirror_record first;
    first.epoch = promise.epoch;
    first.writer = promise.writer;
    first.in_sync = static_cast<std::uint16_t>(in_sync);
    first.members = static_cast<std::uint16_t>(newest.members | in_sync | joined);
    return first;
}

record_change::verdict record_change::check() const
{
    if (targets() == 0 && next_.policy == replica::mirror_policy::safety)
        return verdict::no_target;
    if (targets() != 0 && before_ != 0 && (targets() & before_) == 0)
        return verdict::none_left;
    // The target might have stored the clean record and another machine open the set, so the local record requires it.
    if (targets() == 0 && before_ != 0 && next_.closed)
        return verdict::unclean;
    return required_lost() != 0 ? verdict::required_lost : verdict::commit;
}

const mirror_record &record_change::propose(std::uint64_t version)
{
    next_.version = version;
    return next_;
}

void record_change::remove(copy_mask failed)
{
    removed_ |= failed;
    next_.in_sync = static_cast<std::uint16_t>(next_.in_sync & ~failed);
}

} // namespace group

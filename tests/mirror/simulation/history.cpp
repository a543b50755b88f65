// SPDX-License-Identifier: BSD-3-Clause
#include "history.hpp"

#include <algorithm>
#include <cstring>

#include "base/siphash.hpp"
#include "record/copy_stamp.hpp"

namespace simulation
{

std::uint64_t word_of(std::uint64_t number)
{
    return number << 32 | number * 0x9e3779b97f4a7c15 >> 32;
}

std::uint64_t number_of(std::uint64_t word)
{
    return word >> 32;
}

std::uint64_t history::next(std::size_t slot)
{
    slot_of_.push_back(slot);
    return slot_of_.size() - 1;
}

std::uint64_t history::word(const place &of, std::uint64_t offset, bool durable) const
{
    const file *const f = disks->named(of.data);
    std::uint64_t found = 0;
    if (f != nullptr && offset + sizeof(found) <= f->size())
        std::memcpy(&found, durable ? &f->durable[offset] : f->live + offset, sizeof(found));
    return found;
}

// Each word contains a number and its check. Zero is the initial content.
bool history::is_stored(std::size_t slot, std::uint64_t word) const
{
    const std::uint64_t number = number_of(word);
    return word == 0 || (word == word_of(number) && number < slot_of_.size() && slot_of_[number] == slot);
}

void history::check_word(std::size_t slot, std::size_t part, std::uint64_t word, const char *where) const
{
    const std::uint64_t number = number_of(word);
    if (!is_stored(slot, word))
        in_.violated("%s has %lx in slot %zu, which no writer stored", where, word, slot);
    if (number < acknowledged_[slot][part])
        in_.violated("%s has flush %lu in slot %zu, and %lu was acknowledged", where, number, slot,
                acknowledged_[slot][part]);
    if (number < seen_[slot][part])
        in_.violated("%s has flush %lu in slot %zu, and the writer before found %lu when it had the set", where, number,
                slot, seen_[slot][part]);
}

// Returns the newest valid slot of the file: as processes see it, or as it is after a power failure.
replica::mirror_state history::state(const place &of, bool durable)
{
    constexpr std::size_t slot_size = 4096, head = 20;
    constexpr std::size_t checked = head + replica::encoded_state_size + replica::encoded_stamp_size;
    const file *const f = disks->named(of.state);
    replica::mirror_state newest;
    std::uint64_t newest_sequence = 0;
    for (std::size_t at = 0; f != nullptr && at + slot_size <= f->size(); at += slot_size) {
        const std::byte *const slot = durable ? &f->durable[at] : f->live + at;
        const replica::siphash_result sum = replica::siphash_128(replica::siphash_key{}, {slot, checked});
        byte_reader from({slot + 12, checked});
        const auto sequence = from.get<std::uint64_t>();
        replica::mirror_state found;
        if (std::memcmp(sum.data(), slot + checked, sum.size()) == 0 && get(from, found) &&
                sequence > newest_sequence) {
            newest_sequence = sequence;
            newest = found;
        }
    }
    return newest;
}

replica::mirror_record history::newest_record(std::uint32_t of) const
{
    replica::mirror_record newest = keeper::instance == nullptr ? replica::mirror_record() : keeper::instance->newest;
    for (unsigned copy = 0; copy < copies.size(); ++copy)
        if ((of >> copy & 1) != 0 && !copies[copy].data.empty() && is_newer(record_of(copy), newest))
            newest = record_of(copy);
    return newest;
}

std::uint32_t history::in_sync(const replica::mirror_record &r) const
{
    std::uint32_t found = 0;
    std::array<std::size_t, replica::max_copies> place_of{};
    std::array<replica::mirror_record, replica::max_copies> newest{};
    for (std::size_t i = 0; i < copies.size(); ++i) {
        const replica::mirror_state s = copies[i].data.empty() ? replica::mirror_state() : durable_state(copies[i]);
        if ((r.in_sync >> s.copy & 1) == 0 || !is_newer(s.committed, newest[s.copy]))
            continue;
        found = (newest[s.copy].epoch == 0 ? found : found & ~(1U << place_of[s.copy])) | 1U << i;
        newest[s.copy] = s.committed;
        place_of[s.copy] = i;
    }
    return copies[0].machine == 0 ? r.in_sync : found;
}

std::vector<replica::mirror_promise> history::promises() const
{
    std::vector<replica::mirror_promise> all;
    for (const place &p : copies)
        all.push_back(p.data.empty() ? replica::mirror_promise() : state(p, false).promised);
    return all;
}

bool history::overtaken(std::uint64_t epoch) const
{
    return std::ranges::any_of(
            copies, [&](const place &p) { return !p.data.empty() && durable_state(p).promised.epoch > epoch; });
}

// If a local copy opens alone, it contacts no target. Therefore each other copy must then refuse to open without it.
void history::check_claims() const
{
    if (keeper::instance != nullptr || copies[0].machine != 0)
        return; // the arbiter's record decides, or no copy is local
    std::vector<replica::mirror_record> records;
    for (const place &p : copies)
        records.push_back(p.data.empty() ? replica::mirror_record() : durable_state(p).committed);
    replica::mirror_record of_targets;
    for (std::size_t copy = 0; copy < copies.size(); ++copy)
        if (records[copy].writer_copy != copy && is_newer(records[copy], of_targets))
            of_targets = records[copy];
    const bool refuses = of_targets.policy == replica::mirror_policy::availability && !of_targets.closed;
    for (std::size_t copy = 0; copy < copies.size(); ++copy)
        if (const auto &own = records[copy]; own.in_sync == 1U << copy && is_newer(own, of_targets) && !refuses)
            in_.violated("copy %zu can be opened alone with record %lu.%lu, and the targets without it with %lu.%lu",
                    copy, own.epoch, own.version, of_targets.epoch, of_targets.version);
}

void history::acknowledged(const call &c)
{
    ++flushes;
    if (newest_epoch_ > c.epoch && c.began >= opened_at_)
        in_.violated("epoch %lu acknowledged flush %lu, which began after epoch %lu had the set", c.epoch, c.number,
                newest_epoch_);
    replica::mirror_record newest;
    for (const place &p : copies)
        if (const replica::mirror_record r = durable_state(p).committed; !p.data.empty() && is_newer(r, newest))
            newest = r;
    const std::uint32_t all = in_sync(newest);
    for (const std::size_t part : c.parts) {
        std::uint64_t &kept = acknowledged_[c.slot][part];
        kept = std::max(kept, c.number);
        if (c.slot >= slots)
            check_lengths(all, at(c.slot) + growth / slots_of_growth, max_length());
        for (std::size_t copy = 0; copy < copies.size(); ++copy)
            if ((all >> copy & 1) != 0 && !disks->named(copies[copy].data)->is_restored)
                check_word(c.slot, part, word(copies[copy], at(c.slot) + words[part], true), copies[copy].data.c_str());
    }
}

void history::equal(unsigned copy, std::uint32_t in_sync) const
{
    const file *const ours = disks->named(copies[copy].data);
    for (std::size_t i = 0; i < copies.size(); ++i) {
        const file *const theirs = disks->named(copies[i].data);
        if ((in_sync >> i & 1) == 0 || i == copy || theirs == nullptr)
            continue;
        const auto different = std::mismatch(ours->live, ours->live + set_length_, theirs->live).first - ours->live;
        if (static_cast<std::uint64_t>(different) != set_length_)
            in_.violated("copies %u and %zu are in sync and differ at %ld", copy, i, different);
    }
}

void history::check_lengths(std::uint32_t in_sync, std::uint64_t min, std::uint64_t max) const
{
    for (std::size_t copy = 0; copy < copies.size(); ++copy) {
        const file *const f = disks->named(copies[copy].data);
        if ((in_sync >> copy & 1) == 0 || f == nullptr)
            continue;
        const std::uint64_t stored = durable_state(copies[copy]).length;
        if (stored < min || stored > max || f->durable_size < stored)
            in_.violated("copy %zu is in sync with %lu bytes in a file of %zu, and the set has %lu", copy, stored,
                    f->durable_size, min);
    }
}

void history::check_new_bytes(std::uint32_t in_sync, std::uint64_t from, std::uint64_t end) const
{
    for (std::size_t copy = 0; copy < copies.size(); ++copy) {
        const file *const f = disks->named(copies[copy].data);
        for (std::uint64_t at = from; at < end && (in_sync >> copy & 1) != 0 && f != nullptr && !f->is_restored; ++at)
            if (f->live[at] != std::byte{0} || f->durable[at] != std::byte{0})
                in_.violated("new byte %lu of copy %zu is not zero", at, copy);
    }
}

void history::grown(std::uint64_t epoch, std::uint64_t grown_length, time_us began)
{
    ++growths;
    if (epoch != 0 && newest_epoch_ > epoch && began >= opened_at_)
        in_.violated("epoch %lu grew the set by a call that began after epoch %lu had it", epoch, newest_epoch_);
    const replica::mirror_record newest = newest_record();
    // The next writer may have the set already.
    if (epoch == 0 || newest.epoch == epoch) {
        check_lengths(in_sync(newest), grown_length, grown_length);
        check_new_bytes(in_sync(newest), set_length_, grown_length);
    }
    set_length_ = std::max(set_length_, grown_length);
}

void history::not_grown(std::uint64_t epoch, std::uint64_t current_length) const
{
    const replica::mirror_record newest = newest_record();
    for (std::size_t copy = 0; copy < copies.size() && newest.epoch == epoch; ++copy)
        if (const std::uint64_t stored = durable_state(copies[copy]).length;
                (in_sync(newest) >> copy & 1) != 0 && stored != current_length)
            in_.violated("a growth failed, and copy %zu has %lu bytes instead of %lu", copy, stored, current_length);
}

void history::marked(std::uint64_t epoch, std::uint64_t mark, time_us began)
{
    if (newest_epoch_ > epoch && began >= opened_at_)
        in_.violated(
                "epoch %lu acknowledged mark %lu, which began after epoch %lu had the set", epoch, mark, newest_epoch_);
    known_mark_ = std::max(known_mark_, mark);
}

void history::before_eviction(std::uint64_t epoch, unsigned copy) const
{
    replica::mirror_record newest;
    for (const place &p : copies)
        if (const replica::mirror_record r = p.data.empty() ? newest : durable_state(p).committed;
                r.epoch == epoch && is_newer(r, newest))
            newest = r;
    if (newest.epoch != 0 && (newest.in_sync >> copy & 1) == 0)
        in_.violated("the program of epoch %lu is called for copy %u, but a record without this copy exists already",
                epoch, copy);
}

void history::opened(
        unsigned copy, std::uint64_t epoch, std::uint32_t in_sync, std::uint64_t mark, std::uint64_t found_length)
{
    ++openings;
    in_.log("has the set with epoch %lu, in sync %x, and %lu bytes", epoch, in_sync, found_length);
    if (epoch == newest_epoch_)
        in_.violated("epoch %lu was opened twice", epoch);
    for (std::size_t i = 0; i < copies.size(); ++i)
        if ((in_sync >> i & 1) != 0)
            disks->named(copies[i].data)->is_restored = false;
    // The writer lost the set before this record of its opening.
    if (epoch < *std::ranges::max_element(answered_epoch_))
        return;
    if (found_length < set_length_ || found_length > std::max(length, requested_length))
        in_.violated("the opened set has %lu bytes, and had %lu before", found_length, set_length_);
    if (copies[0].machine == 0) // the record of a pool has no length
        check_lengths(in_sync, found_length, found_length);
    check_new_bytes(in_sync, set_length_, found_length);
    set_length_ = found_length;
    for (std::size_t slot = 0; slot < slots_in(set_length_); ++slot)
        for (std::size_t part = 0; part < words.size(); ++part) {
            const std::uint64_t found = word(copies[copy], at(slot) + words[part], false);
            check_word(slot, part, found, "the opened set");
            seen_[slot][part] = number_of(found);
        }
    if (mark < known_mark_)
        in_.violated("the opened set has mark %lu, and %lu was known before", mark, known_mark_);
    known_mark_ = mark;
    equal(copy, in_sync);
    check_claims();
    newest_epoch_ = epoch;
    opened_at_ = in_.now();
}

void history::found(std::uint64_t epoch, const char *memory) const
{
    for (std::size_t slot = 0; slot < slots && !overtaken(epoch); ++slot)
        for (std::size_t part = 0; part < words.size(); ++part) {
            std::uint64_t word = 0;
            std::memcpy(&word, memory + at(slot) + words[part], sizeof(word));
            check_word(slot, part, word, "the memory of the program");
        }
}

void history::forced(unsigned copy, std::uint64_t found_length)
{
    ++forcings;
    set_length_ = found_length;
    for (std::size_t slot = 0; slot < max_slots; ++slot)
        for (std::size_t part = 0; part < words.size(); ++part) {
            const bool exists = slot < slots_in(found_length);
            const std::uint64_t found = exists ? word(copies[copy], at(slot) + words[part], false) : 0;
            acknowledged_[slot][part] = seen_[slot][part] = number_of(found);
        }
    known_mark_ = 0;
}

// The lanes of a pool have no epoch: they end with their session.
void history::written(unsigned machine, std::uint64_t epoch) const
{
    if (epoch != 0 && answered_epoch_[machine] > epoch)
        in_.violated("machine %u took a write of epoch %lu, and has promised itself to %lu", machine, epoch,
                answered_epoch_[machine]);
}

// Power may fail when a device has stored only a part of a write. Each word then has its durable or its current value.
// All these states are checked at each such moment.
void history::cut_amid_write(unsigned machine)
{
    ++cuts;
    const auto of = std::ranges::find(copies, machine, &place::machine);
    const file *const f = of == copies.end() ? nullptr : disks->named(of->data);
    if (f == nullptr || f->size() < length)
        return;
    for (std::size_t slot = 0; slot < slots; ++slot)
        for (const std::uint64_t offset : words) {
            std::uint64_t there = 0, durable = 0;
            std::memcpy(&there, f->live + at(slot) + offset, sizeof(there));
            std::memcpy(&durable, &f->durable[at(slot) + offset], sizeof(durable));
            for (const std::uint64_t left : {there, durable})
                if (!is_stored(slot, left))
                    in_.violated("a power failure leaves %lx in slot %zu of %s, which no writer stored", left, slot,
                            of->data.c_str());
        }
}

void history::responded(const process &client, const replica::response &a)
{
    if (a.kind() != replica::request::kCommit || a.status() != static_cast<std::uint32_t>(replica::status::success))
        return;
    replica::mirror_record &newest = committed_[&client];
    if (const replica::mirror_record r = replica::from_wire(a.state()).committed; is_newer(r, newest))
        newest = r;
}

void history::answered(unsigned machine, const replica::response &a)
{
    using replica::request;
    if (a.status() != static_cast<std::uint32_t>(replica::status::success))
        return;
    const auto of = std::ranges::find(copies, machine, &place::machine);
    if (a.kind() == request::kCommit || (a.kind() == request::kCursor && a.state().resynced()))
        replaced_ &= ~(1U << (of - copies.begin()));
    if (a.kind() != request::kGetState && a.kind() != request::kPrepare && a.kind() != request::kCommit)
        return;
    const replica::mirror_state response = replica::from_wire(a.state()), durable = durable_state(*of);
    std::uint64_t &answered = answered_epoch_[machine];
    const std::uint64_t least = std::max(answered, response.promised.epoch);
    if (durable.promised.epoch < least ||
            (durable.promised.epoch == response.promised.epoch && durable.promised != response.promised))
        in_.violated(
                "machine %u answers that it promised itself to epoch %lu, and that is not durable", machine, least);
    if (is_newer(response.committed, durable.committed))
        in_.violated("machine %u answers with a record that is not durable", machine);
    if (a.kind() != request::kPrepare)
        return;
    answered = least;
    if (adapter->serves_below(machine, least))
        in_.violated(
                "machine %u promises itself to epoch %lu while a writer before can still write to it", machine, least);
}

} // namespace simulation

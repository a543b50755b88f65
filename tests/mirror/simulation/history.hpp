// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device.hpp"
#include "message/control.hpp"
#include "storage.hpp"

namespace simulation
{

// Record of the simulated arbiter, if it exists.
struct keeper {
    static keeper *instance;

    replica::mirror_record newest;
    std::uint64_t epoch = 0;
    std::uint64_t writer = 0; // 0 if none
    time_us ends = 0;         // end of the lease
    time_us silent_until = 0;
};

// Observer of the whole world. Fails the test for each of these states:
// - An acknowledged flush is not durable in a copy that the newest record lists as in sync.
// - An opened set lacks acknowledged data, or data of an earlier opened set.
// - An opened set has copies that are not equal.
// - A target accepts a write from a writer after it made a promise to another one.
// - A target makes a promise while an earlier writer is connected.
// - A writer acknowledges an operation that it began after the next writer opened the set.
// - A local copy opens alone although the targets can be opened without it.
// - A power failure during a write leaves a torn word.
// - The eviction function is called for a copy that has left, or the program continues after it refused an eviction.
// - An opened set is shorter than when it was opened or grown before.
// - A copy in sync does not have the length of the set, or has a new byte that is not zero.
// - A failed growth changes the length of a copy in sync.
// - An opened set has an older consistency point than one that was acknowledged or found before.
// - A response reports data that is not durable, or lacks data that an earlier response reported.
class history
{
public:
    static constexpr std::size_t slots = 24;
    static constexpr std::array<std::uint64_t, 4> words{0, 1000, 4096, 4104}; // offsets in a slot
    // Each growth adds bytes with further slots.
    static constexpr std::uint64_t growth = 64 * 1024;
    static constexpr std::size_t max_growths = 3, slots_of_growth = 4,
                                 max_slots = slots + max_growths * slots_of_growth;
    std::size_t slots_in(std::uint64_t set_length) const
    {
        return slots + (set_length - length) / growth * slots_of_growth;
    }
    std::uint64_t at(std::size_t slot) const
    {
        return slot < slots ? 4096 + slot * ((length - 16 * 1024) / slots / 64 * 64)
                            : length + (slot - slots) * (growth / slots_of_growth);
    }
    std::uint64_t max_length() const { return length + max_growths * growth; }

    struct place {
        unsigned machine;
        std::string data, state;
    };

    history(world &in, device &of, std::vector<place> copies_, std::uint64_t length_)
        : copies(std::move(copies_)), length(length_), in_(in), set_length_(length_)
    {
        of.before_write = [this](unsigned machine, std::uint64_t epoch) { written(machine, epoch); };
        of.amid_write = [this](unsigned machine) { cut_amid_write(machine); };
    }

    // Returns the next flush of a slot. Its word identifies the slot and is stored by the writer.
    std::uint64_t next(std::size_t slot);

    struct call {
        std::uint64_t epoch;
        std::size_t slot;
        std::vector<std::size_t> parts; // indexes into words
        std::uint64_t number;
        time_us began;
    };
    void acknowledged(const call &c);
    void opened(unsigned copy, std::uint64_t epoch, std::uint32_t in_sync, std::uint64_t mark, std::uint64_t length);
    // Records a forced opening of that local copy: its data now counts, and data that only other copies have is lost.
    void forced(unsigned copy, std::uint64_t length);
    // Records that the set was grown. Epoch 0 means the epoch of the newest record.
    void grown(std::uint64_t epoch, std::uint64_t length, time_us began);
    // Records that a growth failed, and that its writer continues.
    void not_grown(std::uint64_t epoch, std::uint64_t length) const;
    // Length of the set: found by an opening, or reached by a growth.
    std::uint64_t set_length() const { return set_length_; }
    std::uint64_t requested_length = 0; // maximum of all growths
    // Durable state: the newest record of these copies and the arbiter, and that of one copy.
    replica::mirror_record newest_record(std::uint32_t of = UINT32_MAX) const;
    replica::mirror_record record_of(unsigned copy) const { return durable_state(copies[copy]).committed; }
    // Indexes of the copies in sync of a record. A replica of a pool can have another number than its target.
    std::uint32_t in_sync(const replica::mirror_record &r) const;
    // Promises as processes see them. A process that is killed before its promise is durable leaves it in the file, and
    // the next process that reads the file makes it durable.
    std::vector<replica::mirror_promise> promises() const;
    // Consistency points. Writers use increasing numbers.
    std::uint64_t next_mark() { return ++marks_; }
    void marked(std::uint64_t epoch, std::uint64_t mark, time_us began);
    // Records that the program of that epoch was called before a copy leaves.
    void before_eviction(std::uint64_t epoch, unsigned copy) const;
    void check_claims() const;
    // Returns whether a copy has made a promise to a higher epoch.
    bool overtaken(std::uint64_t epoch) const;
    void equal(unsigned copy, std::uint32_t in_sync) const;
    void written(unsigned machine, std::uint64_t epoch) const;
    void answered(unsigned machine, const replica::response &a);
    // Observes the records that targets report to a process.
    void responded(const process &client, const replica::response &a);
    replica::mirror_record committed_by(const process &client) const { return committed_.at(&client); }
    // Checks the memory of a program that has just opened the pool.
    void found(std::uint64_t epoch, const char *memory) const;
    // Records that the parts of a target were replaced.
    void replaced(unsigned copy) { replaced_ |= 1U << copy; }
    // Targets whose parts were replaced, and that neither completed a resync nor committed a record since.
    std::uint32_t replaced() const { return replaced_; }
    void cut_amid_write(unsigned machine);

    const std::vector<place> copies; // indexed by copy number; an absent copy has no data
    const std::uint64_t length;      // length of each copy at first
    std::uint64_t flushes = 0, openings = 0, forcings = 0, growths = 0, cuts = 0;

private:
    static replica::mirror_state state(const place &of, bool durable);
    static replica::mirror_state durable_state(const place &of) { return state(of, true); }
    bool is_stored(std::size_t slot, std::uint64_t word) const;
    std::uint64_t word(const place &of, std::uint64_t offset, bool durable) const;
    // Checks that copies in sync have a length within these limits durably.
    void check_lengths(std::uint32_t in_sync, std::uint64_t min, std::uint64_t max) const;
    // Checks that bytes that no writer has used are zero.
    void check_new_bytes(std::uint32_t in_sync, std::uint64_t from, std::uint64_t end) const;
    void check_word(std::size_t slot, std::size_t part, std::uint64_t word, const char *where) const;

    world &in_;
    std::vector<std::size_t> slot_of_{0}; // indexed by flush number
    std::array<std::array<std::uint64_t, words.size()>, max_slots> acknowledged_{}, seen_{};
    std::uint64_t marks_ = 0, known_mark_ = 0; // consistency points: acknowledged, or found
    std::uint64_t newest_epoch_ = 1;           // newest epoch that was opened
    std::uint64_t set_length_;
    time_us opened_at_ = 0;
    std::array<std::uint64_t, max_machines> answered_epoch_{};
    std::uint32_t replaced_ = 0;
    std::map<const process *, replica::mirror_record> committed_;
};

// Packs a number and its check into one word, half each.
std::uint64_t word_of(std::uint64_t number);
std::uint64_t number_of(std::uint64_t word);

} // namespace simulation

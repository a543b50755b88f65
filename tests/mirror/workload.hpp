// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "fixture.hpp"

// Work of the writers in the tests with faults, and checks of the expected content.

// State that a client of the writer knows. It is in memory shared by processes.
struct shared_facts {
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<std::uint64_t> published;
    std::atomic<int> ended_with;
};

// Packs the number of a flush and its check into a word.
std::uint64_t word_of(std::uint64_t number);
// Number of slots. A flush changes four words of its slot, which later flushes reuse.
inline constexpr std::uint64_t slots = 512;
inline constexpr std::uint64_t words_of_slot[] = {0, 1000, 4096, 4104};
std::uint64_t slot_at(std::uint64_t number);

// Flushes three ranges of a slot; each fourth flush is followed by a published word. Returns the code of the call that
// failed.
int write_one(const opened &m, std::uint64_t number, shared_facts &facts);

// Runs a round for each seed: MIRROR_KILL_ROUNDS is their number, MIRROR_KILL_SEED the first one.
void run_rounds(const std::function<void(std::uint64_t seed)> &round);

// Checks that every acknowledged flush, or a later one of its slot, is in the local copy, and that no word is torn.
void check_all(const opened &m, const shared_facts &facts);

// Checks that the targets have the content of the local copy.
void check_copies(const opened &m, const std::vector<const target *> &targets);

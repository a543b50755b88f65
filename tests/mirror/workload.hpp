// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "fixture.hpp"

// What writers do in the tests with faults, and what has to be there afterwards.

// In memory that processes share: what a client of the writer knows.
struct shared_facts {
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<std::uint64_t> published;
    std::atomic<int> ended_with;
};

// A word tells the number of its flush, and whether it is whole.
std::uint64_t word_of(std::uint64_t number);
// A flush changes four words of its slot, which is used again by a later one.
inline constexpr std::uint64_t slots = 512;
inline constexpr std::uint64_t words_of_slot[] = {0, 1000, 4096, 4104};
std::uint64_t slot_at(std::uint64_t number);

// Each flush has three ranges of its slot; each fourth is followed by a published word. The code of the call that
// failed.
int write_one(const opened &m, std::uint64_t number, shared_facts &facts);

// Every acknowledged flush, or a later one of its slot, is in the home copy, and no word is torn.
void check_all(const opened &m, const shared_facts &facts);

// The targets have what the home copy has.
void check_copies(const opened &m, const std::vector<const target *> &targets);

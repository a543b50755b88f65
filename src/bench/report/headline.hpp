// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"

#include <span>
#include <string>
#include <vector>

namespace bench::report
{

// A figure large enough to be read across a room.
struct card {
    std::string value, label, detail;
};

// What a reader in a hurry takes away, made from the data.
struct headline {
    std::string paragraph;
    std::vector<card> cards;
    std::vector<std::string> limits; // what bounds these figures, a sentence each
};

headline headline_of(std::span<const run> runs, std::span<const entry> entries);

} // namespace bench::report

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"

namespace bench::report
{

// A figure large enough to be read across a room.
struct card {
    std::string value, label, detail;
    std::string style; // "better", "worse" or "even" of a comparison, else empty
};

// What a reader in a hurry takes away.
struct headline {
    std::string facts; // counts of points, where and how long
    std::vector<card> cards;
    std::vector<std::string> notes; // what a reader must know to judge the figures
};

headline headline_of(std::span<const run> runs, std::span<const entry> entries);

} // namespace bench::report

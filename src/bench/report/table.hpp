// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "figure.hpp"

// The tables that HTML and Markdown have in common.
namespace bench::report
{

struct cell {
    std::string text;
    double order = 0; // what a numeric column is sorted by
    bool numeric = false;
};

struct table {
    std::vector<std::string> head;
    std::vector<std::vector<cell>> rows;
    std::string common; // what holds for all rows
};

// The values a chart draws; a line chart has a row for each x and a column for each line.
table table_of(const figure &f);
// A row for each point. What all points have in common is said once.
table table_of(std::span<const entry> entries);
// Both ends side by side.
table environment_of(const results &r);
// What failed or was skipped, and why; empty rows when all went well.
table missing(std::span<const entry> entries);

} // namespace bench::report

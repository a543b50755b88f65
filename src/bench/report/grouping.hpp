// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"

// Entries taken apart into figures and their lines.
namespace bench::report
{

using entry_list = std::vector<const entry *>;

// The entries of one line, told apart from those of the others by the label.
struct line {
    std::string label;
    std::size_t colour = 0;
    entry_list entries;
};

struct panel {
    std::string distinction; // what tells it from the other panels; may be empty
    std::string common;      // what else all its entries share
    std::vector<attribute> shared;
    std::vector<line> lines;

    const entry &first() const { return *lines.front().entries.front(); }
};

// Entries that differ in any attribute but x and lines fall into different panels; inside a panel, into lines.
// In order of appearance; lines of librpma first.
std::vector<panel> group(const entry_list &entries, std::span<const attribute> x, std::span<const attribute> lines);

// Fills in distinction and common of the panels that will be drawn.
void describe(std::vector<panel> &panels);

// Entries that agree in the attributes, in order of appearance.
std::vector<entry_list> split(const entry_list &entries, std::span<const attribute> by);

// Those of the attributes in which two of the entries differ.
std::vector<attribute> varying(const entry_list &entries, std::span<const attribute> among);

// The attributes without some.
std::vector<attribute> without(std::span<const attribute> attributes, std::span<const attribute> some);

} // namespace bench::report

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "figure.hpp"

// A report of one or more runs, in three forms.
namespace bench::report
{

// A group of figures.
struct section {
    std::string key, heading, short_name;
};

// Every section, in the order of the report.
std::span<const section> all_sections();

// Those figures of the named sections for which the runs have data; all sections if none is named.
std::vector<figure> figures_of(std::span<const run> runs, const std::vector<std::string> &sections);

// One file that needs no other.
std::string html(std::span<const run> runs, const std::string &title, const std::vector<figure> &figures);
// Headline, tables and environment, for an issue or a wiki.
std::string markdown(std::span<const run> runs, const std::string &title);
// A header and a row for each point: RFC 4180, base units.
std::string csv(std::span<const run> runs);

// The title when none is asked for.
std::string default_title(std::span<const run> runs);

} // namespace bench::report

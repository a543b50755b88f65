// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results.hpp"

// Measurements in words and lines, for the terminal.
namespace bench
{

// "write_flush 4 KiB librpma depth 16": what differs from the plainest setup is named.
std::string describe(const setup &what);

std::string headline_of_table();
std::string table_line(const point &p);
// The middle one of the repeats' values.
std::optional<double> median(std::vector<double> values);

// Shows how far a run is, on a terminal only; elsewhere it is silent.
class progress
{
public:
    progress(std::size_t points, double estimate_s);
    ~progress();
    void show(std::size_t done, const std::string &now);
    void clear();

private:
    bool on_terminal_;
    std::size_t points_;
    double estimate_s_;
    std::uint64_t begun_ns_;
};

} // namespace bench

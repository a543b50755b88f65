// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace bench::old_framework
{

// What the rows of one old benchmark measured.
struct row_meaning {
    // Takes in one of the words by which the old framework named it. False: the word says nothing.
    bool take_word(const std::string &word);
    // Whether it is clear what was done: the rest has defaults.
    bool known() const { return reads || writes; }
    static std::string all_words();

    bool reads = false, writes = false;
    bool random = false;
    bool verbs = false; // by perftest
    bool gpspm = false;
    bool to_pmem = false;
    bool blocking = false; // the target waits for messages instead of polling
    bool direct_write = false;
};

// The rows of a CSV file as JSON objects of texts.
nlohmann::json rows_of_csv(const std::string &text, const std::string &path);
// A list of rows, or of [read row, write row]; units and names are the old framework's. Throws results_error naming
// the row of the file.
std::vector<point> points_of_rows(const nlohmann::json &rows, const row_meaning &meaning, const std::string &path);

} // namespace bench::old_framework

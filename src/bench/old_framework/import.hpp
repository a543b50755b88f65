// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

#include <string>

// Results of the benchmarking framework that came with librpma 0.9 to 1.1: its bench.json with the benchmark_<id>.json
// files beside it, a single file of rows, or a standardized CSV file.
namespace bench::old_framework
{

// Reads a result file of rpma-bench or, if it is none, one of the old framework's. Rows by themselves do not say what
// they measured: rows_are does, as words like "apm,write,pmem"; without it the words of the file's name are taken.
// Throws results_error.
results load_any(const std::string &path, const std::string &rows_are);

} // namespace bench::old_framework

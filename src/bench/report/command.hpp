// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace CLI
{
class App;
}

// The verb `rpma-bench report`.
namespace bench::report
{

struct options {
    std::vector<std::string> files;
    std::string out; // empty: beside the first result file; "-": standard output
    std::string format = "html";
    std::string title;
    std::vector<std::string> figures;
    std::string rows_are;
};

// Adds the verb; the options must outlive the parsing.
CLI::App *add_command(CLI::App &app, options &o);
// 0, or 1 after one line on standard error.
int run_command(const options &o);

} // namespace bench::report

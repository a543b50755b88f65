// SPDX-License-Identifier: BSD-3-Clause
#include "report/command.hpp"

#include <CLI/CLI.hpp>

int main(int argc, char **argv)
{
    CLI::App app("Measures remote memory access", "rpma-bench");
    app.require_subcommand(1);
    bench::report::options report;
    const CLI::App *report_verb = bench::report::add_command(app, report);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        // Of CLI11's many codes a caller needs one: the command line was wrong.
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (report_verb->parsed())
        return bench::report::run_command(report);
    return 2;
}

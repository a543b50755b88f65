// SPDX-License-Identifier: BSD-3-Clause
#include "command.hpp"
#include "file.hpp"
#include "old_framework/import.hpp"
#include "report.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace bench::report
{

namespace
{

std::string without_extension(const std::string &path)
{
    const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
    const bool has_one = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
    return has_one ? path.substr(0, dot) : path;
}

// A run is called after its file, and after its directory as well where two files have one name.
std::string name_of(const std::string &path, const std::vector<run> &others)
{
    const std::string stem = without_extension(path);
    std::string name = stem.substr(stem.rfind('/') == std::string::npos ? 0 : stem.rfind('/') + 1);
    const auto taken = [&] { return std::ranges::find(others, name, &run::name) != others.end(); };
    if (taken())
        name = stem;
    for (int i = 2; taken(); ++i)
        name = stem + " (" + std::to_string(i) + ")";
    return name;
}

std::string rendered(const options &o, const std::vector<run> &runs)
{
    const std::string title = o.title.empty() ? default_title(runs) : o.title;
    if (o.format == "csv")
        return csv(runs);
    if (o.format == "markdown")
        return markdown(runs, title);
    return html(runs, title, figures_of(runs, o.figures));
}

std::string destination(const options &o)
{
    if (!o.out.empty())
        return o.out;
    const std::string extension = o.format == "markdown" ? ".md" : "." + o.format;
    const std::string path = without_extension(o.files.front()) + extension;
    // A CSV file that was read is not written over.
    return std::ranges::find(o.files, path) == o.files.end() ? path : without_extension(path) + "-report" + extension;
}

} // namespace

CLI::App *add_command(CLI::App &app, options &o)
{
    CLI::App *report = app.add_subcommand("report", "write a report of result files: HTML, Markdown or CSV");
    report->add_option("RESULT", o.files, "result files of rpma-bench, or of librpma's old benchmarking framework")
            ->required();
    report->add_option(
            "-o,--out", o.out, "the file to write, - for standard output (default: beside the first RESULT)");
    report->add_option("-f,--format", o.format, "html, markdown or csv")
            ->check(CLI::IsMember({"html", "markdown", "csv"}))
            ->capture_default_str();
    report->add_option("--title", o.title, "heading of the report");
    std::vector<std::string> groups;
    for (const section &s : all_sections())
        groups.push_back(s.key);
    report->add_option("--figures", o.figures, "draw only these groups of figures")
            ->delimiter(',')
            ->check(CLI::IsMember(groups));
    report->add_option("--rows-are", o.rows_are,
            "what bare rows of the old framework measured, as its words: apm,write,pmem or ib,read");
    return report;
}

int run_command(const options &o)
{
    try {
        std::vector<run> runs;
        for (const std::string &file : o.files) {
            std::string name = name_of(file, runs);
            runs.push_back({std::move(name), old_framework::load_any(file, o.rows_are)});
        }
        const std::string text = rendered(o, runs);
        if (o.out == "-") {
            if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
                throw std::runtime_error("cannot write to standard output");
            return 0;
        }
        const std::string path = destination(o);
        replace_file(path, text);
        std::printf("%s\n", path.c_str());
        return 0;
    } catch (const std::runtime_error &error) {
        std::fprintf(stderr, "rpma-bench: %s\n", error.what());
        return 1;
    }
}

} // namespace bench::report

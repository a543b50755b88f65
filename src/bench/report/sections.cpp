// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <algorithm>
#include <iterator>

namespace bench::report
{

namespace
{

const section sections[] = {
        {"compare", "Against another library", "Libraries"},
        {"latency", "Latency", "Latency"},
        {"percentiles", "Latency by percentile", "Percentiles"},
        {"bandwidth", "Bandwidth and rate", "Bandwidth"},
        {"scaling", "Connections and threads", "Scaling"},
        {"interfaces", "librpma, raw verbs, TCP, memcpy", "Interfaces"},
        {"dram-pmem", "DRAM and persistent memory", "DRAM, PMem"},
        {"apm-gpspm", "Flushed by the initiator or by the target", "APM, GPSPM"},
        {"mix", "Reads and writes mixed", "Mix"},
        {"cpuload", "A busy target", "CPU load"},
};

} // namespace

std::span<const section> all_sections()
{
    return sections;
}

std::vector<figure> figures_of(std::span<const run> runs, const std::vector<std::string> &wanted)
{
    const std::vector<entry> entries = entries_of(runs);
    std::vector<figure> figures = line_figures(entries);
    std::ranges::move(ratio_figures(runs, entries), std::back_inserter(figures));
    std::ranges::move(bar_figures(entries), std::back_inserter(figures));
    if (!wanted.empty())
        std::erase_if(figures, [&](const figure &f) { return std::ranges::find(wanted, f.group) == wanted.end(); });
    return figures;
}

std::string default_title(std::span<const run> runs)
{
    std::string title = runs.front().data.pairs.empty() ? "Remote memory access measured" : "Two libraries compared";
    if (!runs.front().data.environment.device.empty())
        title += " on " + runs.front().data.environment.device;
    return title;
}

} // namespace bench::report

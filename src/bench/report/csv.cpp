// SPDX-License-Identifier: BSD-3-Clause
#include "metric.hpp"
#include "report.hpp"

#include <fmt/format.h>

namespace bench::report
{

namespace
{

std::string field(const std::string &text)
{
    if (text.find_first_of(",\"\r\n") == std::string::npos)
        return text;
    std::string quoted = "\"";
    for (const char c : text)
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
}

std::string suffix(unit u)
{
    return u == unit::time_ns ? "_ns" : u == unit::bytes ? "_bytes" : u == unit::percent ? "_percent" : "";
}

std::string row(const entry &e)
{
    const parameters &p = e.parameters();
    std::string line = field(e.run) + "," + field(e.setup().workload) + "," + e.half + "," + to_word(e.setup().api) +
                       "," + field(e.setup().library);
    line += fmt::format(",{},{},{},{},{},{},{},{},{},{},{}", p.block_size, p.depth, p.connections, p.threads,
            to_word(p.flush), p.flush_interval, to_word(p.polling), to_word(p.access),
            p.read_percent ? std::to_string(*p.read_percent) : "", p.cpu_load, field(p.target));
    line += std::string(",") + to_word(e.point.status) + "," + std::to_string(e.point.repeats.size());
    for (const metric &m : all_metrics()) {
        const auto s = summarize(e.point, m);
        line += s ? fmt::format(",{:.10g}", s->median) : ",";
    }
    return line + "," + field(e.point.reason) + "\r\n";
}

} // namespace

std::string csv(std::span<const run> runs)
{
    std::string out = "run,workload,half,api,library,block_size,depth,connections,threads,flush,flush_interval,polling,"
                      "access,read_percent,cpu_load,target,status,repeats";
    for (const metric &m : all_metrics())
        out += std::string(",") + m.key + suffix(m.measured_in);
    out += ",reason\r\n";
    for (const entry &e : entries_of(runs))
        out += row(e);
    return out;
}

} // namespace bench::report

// SPDX-License-Identifier: BSD-3-Clause
#include "set_metrics.hpp"

#include <sstream>
#include <vector>

#include "prometheus.hpp"
#include "report.hpp"

namespace mirror_tool
{

namespace
{

// Returns the metrics of `text` that `existing` does not contain, with one more label.
std::string other_metrics(const std::string &existing, const std::string &text, const std::string &label)
{
    std::istringstream lines(text);
    std::string others;
    bool exists = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# HELP "))
            exists = existing.find(line.substr(0, line.find(' ', 7) + 1)) != std::string::npos;
        if (const std::size_t at = line.find('{'); line.front() != '#' && at != std::string::npos)
            line.insert(at + 1, label + ",");
        others += exists ? "" : line + '\n';
    }
    return others;
}

} // namespace

std::string prometheus_text(const rpma_mirror_state &state, const std::string &set_file, const std::string &of_writer)
{
    const std::vector<unsigned> listed = listed_copies(state);
    const std::string set = prometheus::label("set_file", set_file);
    prometheus::page to("rpma_mirror_");
    const auto add = [&](const char *name, const char *help, std::uint64_t value) {
        to.begin(name, "gauge", help);
        to.add(set, value);
    };
    add("length_bytes", "Length of the set.", state.length);
    add("epoch", "Epoch of the newest record, 0 if no copy has one.", state.epoch);
    add("record_version", "Version of the newest record within its epoch.", state.version);
    add("clean", "1 if the writer closed the set.", state.clean);
    add("in_use", "1 if a program on this machine has the set open.", is_in_use(state) ? 1 : 0);
    add("consistency_point", "Number of the last consistency point, or 0.", state.consistency_point);
    add("copies", "Copies that belong to the set.", listed.size());
    add("copies_in_sync", "Copies that respond and are in sync.", listed.size() - missing_copies(state).size());
    const auto add_copies = [&](const char *name, const char *help, auto value) {
        to.begin(name, "gauge", help);
        for (const unsigned copy : listed)
            to.add(set + "," + prometheus::label("copy", std::to_string(copy)) + "," +
                            prometheus::label("location", state.copies[copy].location),
                    static_cast<std::uint64_t>(value(state.copies[copy])));
    };
    using copy_type = const rpma_mirror_copy &;
    add_copies("copy_online", "1 if the copy responds.", [](copy_type c) {
        return c.state == RPMA_MIRROR_COPY_OFFLINE || c.state == RPMA_MIRROR_COPY_ABSENT ? 0 : 1;
    });
    add_copies("copy_in_sync", "1 if the copy is in sync.",
            [](copy_type c) { return c.state == RPMA_MIRROR_COPY_IN_SYNC ? 1 : 0; });
    add_copies(
            "copy_promised_epoch", "Highest known promise of the copy.", [](copy_type c) { return c.promised_epoch; });
    add_copies(
            "copy_record_epoch", "Epoch of the newest record of the copy.", [](copy_type c) { return c.record_epoch; });
    add_copies("copy_resync_cursor_bytes", "Position of a resync of the copy.", [](copy_type c) { return c.cursor; });
    return to.text() + other_metrics(to.text(), of_writer, set);
}

} // namespace mirror_tool

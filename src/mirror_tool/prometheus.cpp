// SPDX-License-Identifier: BSD-3-Clause
#include "prometheus.hpp"

#include <fmt/format.h>
#include <vector>

#include "report.hpp"

namespace mirror_tool
{

namespace
{

// Label values escape a backslash, a quote and a line feed.
std::string escaped(const std::string &value)
{
    std::string text;
    for (const char c : value)
        text += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    return text;
}

// Builds the output, one family of gauges after the other.
class page
{
public:
    explicit page(const std::string &set_file) : set_label_(fmt::format("set_file=\"{}\"", escaped(set_file))) {}

    void begin(const char *name, const char *help)
    {
        name_ = name;
        text_ += fmt::format("# HELP rpma_mirror_{} {}\n# TYPE rpma_mirror_{} gauge\n", name, help, name);
    }
    void add(std::uint64_t value, const std::string &labels = "")
    {
        text_ += fmt::format("rpma_mirror_{}{{{}{}}} {}\n", name_, set_label_, labels, value);
    }
    void add(const char *name, const char *help, std::uint64_t value)
    {
        begin(name, help);
        add(value);
    }
    const std::string &text() const { return text_; }

private:
    const std::string set_label_;
    const char *name_ = "";
    std::string text_;
};

} // namespace

std::string prometheus_text(const rpma_mirror_state &state, const std::string &set_file)
{
    const std::vector<unsigned> shown = listed_copies(state);
    page to(set_file);
    to.add("length_bytes", "Length of the set.", state.length);
    to.add("epoch", "Epoch of the newest record, 0 if no copy has one.", state.epoch);
    to.add("record_version", "Version of the newest record within its epoch.", state.version);
    to.add("clean", "1 if the writer closed the set.", state.clean);
    to.add("in_use", "1 if a program of this machine has the set open.", is_in_use(state) ? 1 : 0);
    to.add("consistency_point", "Number of the last consistency point, or 0.", state.consistency_point);
    to.add("copies", "Copies that belong to the set.", shown.size());
    to.add("copies_in_sync", "Copies that respond and are in sync.", shown.size() - missing_copies(state).size());
    const auto add_copies = [&](const char *name, const char *help, auto value) {
        to.begin(name, help);
        for (const unsigned copy : shown)
            to.add(static_cast<std::uint64_t>(value(state.copies[copy])),
                    fmt::format(",copy=\"{}\",location=\"{}\"", copy, escaped(state.copies[copy].location)));
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
    return to.text();
}

} // namespace mirror_tool

// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "set.hpp"

namespace mirror_tool
{

namespace
{

using json = nlohmann::ordered_json;

const char *text_of(rpma_mirror_copy_state state)
{
    switch (state) {
    case RPMA_MIRROR_COPY_OFFLINE:
        return "offline";
    case RPMA_MIRROR_COPY_STALE:
        return "stale";
    case RPMA_MIRROR_COPY_RESYNCING:
        return "resync";
    case RPMA_MIRROR_COPY_IN_SYNC:
        return "in sync";
    default:
        return "none";
    }
}

const char *text_of(rpma_mirror_policy policy)
{
    return policy == RPMA_MIRROR_POLICY_SAFETY ? "safety" : "availability";
}

const char *text_of(rpma_mirror_source_reason reason)
{
    switch (reason) {
    case RPMA_MIRROR_SOURCE_LOCAL_NEWEST:
        return "local-newest";
    case RPMA_MIRROR_SOURCE_TARGET_NEWEST:
        return "target-newest";
    case RPMA_MIRROR_SOURCE_LOCAL_CHANGED:
        return "local-changed";
    default:
        return "forced";
    }
}

std::string set_name(const unsigned char (&set)[16])
{
    std::string text;
    for (const unsigned char byte : set)
        text += fmt::format("{:02x}", byte);
    return text;
}

std::string location_of(const rpma_mirror_copy &c)
{
    if (c.is_local != 0)
        return std::string(c.location[0] == '\0' ? "anonymous memory" : c.location) + " (this machine)";
    return std::string(c.location) + " " + c.poolset;
}

} // namespace

std::string size_text(std::uint64_t bytes)
{
    constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    auto value = static_cast<double>(bytes);
    for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
        value /= 1024;
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string duration_text(std::uint64_t seconds)
{
    if (seconds < 60)
        return fmt::format("{} s", seconds);
    const std::uint64_t minutes = seconds / 60;
    return minutes < 60 ? fmt::format("{} min {:02} s", minutes, seconds % 60)
                        : fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

const char *level_text(rpma_mirror_level level)
{
    constexpr const char *words[] = {"volatile", "written-back", "cpu-flushed", "direct-write", "native-flush"};
    return level < std::size(words) ? words[level] : "unknown";
}

std::string list_text(const std::vector<unsigned> &copies)
{
    std::string text;
    for (std::size_t i = 0; i < copies.size(); ++i)
        text += (i == 0 ? "" : i + 1 == copies.size() ? " and " : ", ") + std::to_string(copies[i]);
    return text;
}

std::string table(const std::vector<std::vector<std::string>> &rows)
{
    std::vector<std::size_t> widths;
    for (const auto &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto &row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += fmt::format("{:<{}}", row[i], widths[i] + 2);
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

std::vector<unsigned> listed_copies(const rpma_mirror_state &state)
{
    std::vector<unsigned> listed;
    for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy)
        if (state.copies[copy].is_local != 0 || state.copies[copy].state != RPMA_MIRROR_COPY_ABSENT)
            listed.push_back(copy);
    return listed;
}

bool is_in_use(const rpma_mirror_state &state)
{
    return std::ranges::any_of(
            state.copies, [](const auto &c) { return c.is_local != 0 && c.last_error == RPMA_MIRROR_E_BUSY; });
}

std::vector<unsigned> missing_copies(const rpma_mirror_state &state)
{
    std::vector<unsigned> missing = listed_copies(state);
    std::erase_if(missing, [&](unsigned copy) { return state.copies[copy].state == RPMA_MIRROR_COPY_IN_SYNC; });
    return missing;
}

std::string state_text(const rpma_mirror_state &state)
{
    std::string text = fmt::format("set {}: {}, policy {}, epoch {}, version {}, {}\n\n", set_name(state.uuid),
            size_text(state.length), text_of(state.policy), state.epoch, state.version,
            state.clean != 0 ? "closed" : "not clean (open or crashed)");
    if (state.consistency_point != 0)
        text.insert(text.size() - 1, fmt::format("last consistency point: {}\n", state.consistency_point));
    std::vector<std::vector<std::string>> rows = {{"COPY", "STATE", "RECORD", "WHERE", ""}};
    for (const unsigned copy : listed_copies(state)) {
        const rpma_mirror_copy &c = state.copies[copy];
        rows.push_back({std::to_string(copy), text_of(c.state),
                c.record_epoch == 0 ? "-" : fmt::format("{}.{}", c.record_epoch, c.record_version), location_of(c),
                c.last_error == 0 ? "" : rpma_mirror_err_2str(c.last_error)});
    }
    text += table(rows);
    const std::vector<unsigned> missing = missing_copies(state);
    if (missing.empty())
        return text + "\nall copies are in sync\n";
    return text + fmt::format("\nnot in sync: {} {}\n", missing.size() == 1 ? "copy" : "copies", list_text(missing));
}

std::string absence_text(const rpma_mirror_state &state)
{
    std::string unreachable;
    for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy) {
        const rpma_mirror_copy &c = state.copies[copy];
        if (c.is_local == 0 && c.last_error != 0 && c.last_error != RPMA_MIRROR_E_NOT_FOUND)
            unreachable += fmt::format("{}copy {} at {}: {}", unreachable.empty() ? "" : "; ", copy, c.location,
                    rpma_mirror_err_2str(c.last_error));
    }
    if (!unreachable.empty())
        return fmt::format("local copy not found, and targets do not respond: {} (start rpmemd --listen "
                           "there, and check network and key)",
                unreachable);
    return state.length != 0 ? "set creation incomplete (run rpma-mirror create again)"
                             : "the set does not exist (run rpma-mirror create)";
}

json state_json(const rpma_mirror_state &state)
{
    json copies = json::array();
    for (const unsigned copy : listed_copies(state)) {
        const rpma_mirror_copy &c = state.copies[copy];
        copies.push_back({{"copy", copy}, {"state", text_of(c.state)}, {"local", c.is_local != 0},
                {"location", c.location}, {"poolset", c.poolset}, {"promised_epoch", c.promised_epoch},
                {"record_epoch", c.record_epoch}, {"record_version", c.record_version}, {"resync_cursor", c.cursor},
                {"error", c.last_error == 0 ? json() : json(rpma_mirror_err_2str(c.last_error))}});
    }
    return {{"set", set_name(state.uuid)}, {"length", state.length}, {"policy", text_of(state.policy)},
            {"epoch", state.epoch}, {"version", state.version}, {"clean", state.clean != 0},
            {"in_use", is_in_use(state)}, {"members", copies_of(state.members)}, {"in_sync", copies_of(state.in_sync)},
            {"not_in_sync", missing_copies(state)}, {"consistency_point", state.consistency_point}, {"copies", copies}};
}

std::string recovery_text(const rpma_mirror_recovery_report &r)
{
    return fmt::format("epoch {}: {}\nsource: copy {}; compared {}, sent {}{}\nin sync: {}\n{}", r.epoch, r.reason_text,
            r.source, size_text(r.compared_bytes), size_text(r.sent_bytes),
            r.was_clean != 0 ? " (the set was closed)" : "", list_text(copies_of(r.in_sync)),
            r.consistency_point == 0 ? "" : fmt::format("last consistency point: {}\n", r.consistency_point));
}

json recovery_json(const rpma_mirror_recovery_report &r)
{
    return {{"epoch", r.epoch}, {"source", r.source}, {"reason", text_of(r.reason)}, {"reason_text", r.reason_text},
            {"was_clean", r.was_clean != 0}, {"compared", r.compared_bytes}, {"sent", r.sent_bytes},
            {"responded", copies_of(r.responded)}, {"in_sync", copies_of(r.in_sync)},
            {"consistency_point", r.consistency_point}};
}

} // namespace mirror_tool

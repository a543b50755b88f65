// SPDX-License-Identifier: BSD-3-Clause
#include "commands.hpp"

#include <fmt/format.h>
#include <functional>
#include <map>

#include "progress.hpp"
#include "reading.hpp"
#include "set_metrics.hpp"
#include "report.hpp"
#include "set.hpp"
#include "set_text.hpp"

namespace mirror_tool
{

namespace
{

using json = nlohmann::ordered_json;

void print(const options &what, const std::string &text, const json &value)
{
    fmt::print("{}", what.json ? value.dump(2) + "\n" : text);
}

// Returns failure if a copy is not in sync, for monitoring.
exit_status status_of(const std::vector<unsigned> &missing)
{
    return missing.empty() ? exit_done : exit_failed;
}

exit_status show_status(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    const auto state = inspect(cfg.get());
    const std::string text = what.prometheus     ? prometheus_text(*state, what.set_file)
                             : state->epoch == 0 ? ""
                                                 : state_text(*state);
    print(what, text, state_json(*state));
    if (state->epoch == 0)
        throw failure(absence_text(*state), exit_failed);
    return status_of(missing_copies(*state));
}

exit_status create(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    call([&] { return rpma_mirror_create(cfg.get()); });
    const auto state = inspect(cfg.get());
    print(what, state_text(*state), state_json(*state));
    return exit_done;
}

// Verifies a set. Opening resynchronizes the copies, so differences are found only in a set that was closed cleanly.
exit_status verify(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    check_not_in_use(cfg.get());
    progress shown(what);
    rpma_mirror_cfg_set_resync_options(cfg.get(), shown.resync_options());
    open_set set(cfg.get(), false);
    auto opening = make_output<rpma_mirror_recovery_report>();
    call([&] { return rpma_mirror_get_recovery_report(set.get(), opening.get()); });
    const auto state = set.state();
    std::vector<std::vector<std::string>> rows = {{"COPY", "LEVEL", "COMPARED", "DIFFERENT", "FIRST", "WHERE"}};
    json copies = json::array();
    bool equal = true, found = false;
    for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy) {
        const rpma_mirror_copy &c = state->copies[copy];
        if (c.state == RPMA_MIRROR_COPY_ABSENT || c.is_local != 0 || (what.copy && *what.copy != copy))
            continue;
        found = true;
        auto report = make_output<rpma_mirror_verify_report>();
        const int code = call([&] { return rpma_mirror_verify(set.get(), copy, shown.resync_options(), report.get()); },
                {RPMA_MIRROR_E_VERIFY, RPMA_MIRROR_E_STALE});
        equal = equal && code == 0;
        if (code == RPMA_MIRROR_E_STALE) {
            rows.push_back({std::to_string(copy), "-", "-", "-", "-", std::string(c.location) + ": not in sync"});
            copies.push_back({{"copy", copy}, {"in_sync", false}});
            continue;
        }
        const bool differs = report->differing_segments != 0;
        rows.push_back({std::to_string(copy), level_text(c.level), size_text(report->compared_bytes),
                fmt::format("{} segments", report->differing_segments),
                differs ? fmt::format("{:#x}", report->first_difference) : "-", c.location});
        copies.push_back({{"copy", copy}, {"in_sync", true}, {"level", level_text(c.level)},
                {"compared", report->compared_bytes}, {"different", report->differing_segments},
                {"first", differs ? json(report->first_difference) : json()}});
    }
    if (!found)
        throw failure(fmt::format("target of copy {} not found", what.copy.value_or(0)), exit_usage);
    shown.end_line();
    const char *const reason = opening->was_clean == 0    ? "the set was not closed cleanly"
                               : opening->sent_bytes != 0 ? "files of a copy were changed after the close"
                                                          : nullptr;
    const std::string before =
            reason == nullptr ? "" : fmt::format("{}: opening it sent {}\n\n", reason, size_text(opening->sent_bytes));
    print(what,
            before + table(rows) +
                    (equal ? "\nthe copies are equal\n"
                           : "\ncopies differ: not repaired (rpma-mirror resync overwrites them with the local "
                             "copy)\n"),
            {{"equal", equal}, {"was_clean", opening->was_clean != 0}, {"resynced_bytes", opening->sent_bytes},
                    {"copies", copies}});
    // Closing would overwrite the other copies with the local one, which can be the wrong one.
    if (equal)
        set.close();
    else
        set.leave();
    return equal ? exit_done : exit_failed;
}

exit_status recover(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    progress shown(what);
    call([&] { return rpma_mirror_cfg_set_resync_options(cfg.get(), shown.resync_options()); });
    auto report = make_output<rpma_mirror_recovery_report>();
    call([&] { return rpma_mirror_recover(cfg.get(), what.force ? RPMA_MIRROR_F_FORCE : 0, report.get()); });
    shown.end_line();
    const auto state = inspect(cfg.get());
    const std::vector<unsigned> missing = missing_copies(*state);
    json value = recovery_json(*report);
    value["not_in_sync"] = missing;
    print(what, recovery_text(*report) + (missing.empty() ? "" : "not in sync: " + list_text(missing) + '\n'), value);
    return what.command == "promote" ? exit_done : status_of(missing);
}

exit_status resync(const options &what)
{
    check_not_in_use(read_cfg(what.set_file).get());
    return recover(what);
}

exit_status fence(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    std::uint64_t epoch = 0;
    call([&] { return rpma_mirror_fence(cfg.get(), what.force ? RPMA_MIRROR_F_FORCE : 0, &epoch); });
    print(what, fmt::format("epoch {}: writers of lower epochs are fenced on every target that responded\n", epoch),
            {{"epoch", epoch}});
    return exit_done;
}

// Opens the set, changes it by f, and prints the result.
exit_status change(const options &what, const std::function<void(open_set &, const progress &)> &f)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    check_not_in_use(cfg.get());
    progress shown(what);
    call([&] { return rpma_mirror_cfg_set_resync_options(cfg.get(), shown.resync_options()); });
    open_set set(cfg.get(), what.force);
    f(set, shown);
    shown.end_line();
    const auto state = set.state();
    set.close();
    print(what,
            fmt::format("members: {}\nin sync: {}\n{} is changed (change the set files of other machines, too)\n",
                    list_text(copies_of(state->members)), list_text(copies_of(state->in_sync)), what.set_file),
            {{"members", copies_of(state->members)}, {"in_sync", copies_of(state->in_sync)}});
    return exit_done;
}

exit_status add(const options &what)
{
    return change(what, [&](open_set &set, const progress &shown) {
        call([&] {
            return rpma_mirror_add_target(
                    set.get(), *what.copy, what.place.c_str(), what.pool_set.c_str(), shown.resync_options());
        });
        add_target_line(what.set_file, *what.copy, what.place, what.pool_set);
    });
}

exit_status remove_copy(const options &what)
{
    return change(what, [&](open_set &set, const progress &) {
        call([&] { return rpma_mirror_remove_target(set.get(), *what.copy); });
        remove_target_line(what.set_file, *what.copy);
    });
}

exit_status read(const options &what)
{
    const cfg_ptr cfg = read_cfg(what.set_file);
    const image_of_set from(cfg.get(), what.any_time, static_cast<int>(what.timeout_s) * 1000);
    from.write(what.file);
    const rpma_mirror_image &image = from.get();
    const char *const words[] = {"", "point", "closed", "any-time"};
    const char *const texts[] = {"", "content at consistency point {}",
            "content when the set was closed, after consistency point {}",
            "content of any time after consistency point {}, not consistent"};
    print(what,
            fmt::format("{}: {} from copy {}\n", what.file, size_text(image.length), image.copy) +
                    fmt::format(fmt::runtime(texts[image.consistency]), image.consistency_point) +
                    (image.age_is_proven != 0 ? "\n"
                                              : "\na target in sync did not respond: it may have newer content\n"),
            {{"file", what.file}, {"length", image.length}, {"copy", image.copy},
                    {"consistency", words[image.consistency]}, {"consistency_point", image.consistency_point},
                    {"newest_point", image.newest_point}, {"epoch", image.epoch}, {"version", image.version},
                    {"age_ms", image.age_ms}, {"age_proven", image.age_is_proven != 0}});
    return exit_done;
}

} // namespace

exit_status run(const options &what)
{
    const std::map<std::string, exit_status (*)(const options &)> commands = {{"status", show_status},
            {"create", create}, {"verify", verify}, {"resync", resync}, {"promote", recover}, {"fence", fence},
            {"add", add}, {"remove", remove_copy}, {"read", read}};
    try {
        return commands.at(what.command)(what);
    } catch (const failure &error) {
        if (what.json && error.code() != 0)
            print(what, {},
                    {{"error", {{"code", error.code()}, {"text", rpma_mirror_err_2str(error.code())},
                                       {"message", error.what()}}}});
        throw;
    }
}

} // namespace mirror_tool

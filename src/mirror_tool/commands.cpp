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
#include "writer.hpp"

namespace mirror_tool
{

namespace
{

using json = nlohmann::ordered_json;

void print(const options &opts, const std::string &text, const json &value)
{
    fmt::print("{}", opts.json ? value.dump(2) + "\n" : text);
}

// Returns failure if a copy is not in sync, so that monitoring can use the exit status.
exit_status status_of(const std::vector<unsigned> &missing)
{
    return missing.empty() ? exit_done : exit_failed;
}

exit_status show_status(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    std::unique_ptr<rpma_mirror_state> state;
    std::string failed, metrics;
    // A monitor needs the state of the targets even if the program does not respond.
    try {
        if (const auto writer = writer_set::find(cfg.get(), status_limits)) {
            state = writer->state();
            failed = writer->failure_reason();
            metrics = opts.prometheus ? writer->metrics() : "";
        }
    } catch (const no_response &error) {
        fmt::print(stderr, "rpma-mirror: {}; querying the targets\n", error.what());
        state = nullptr;
    }
    if (!state || !failed.empty())
        state = inspect(cfg.get());
    const std::string text = opts.prometheus     ? prometheus_text(*state, opts.set_file, metrics)
                             : state->epoch == 0 ? ""
                                                 : state_text(*state);
    print(opts, text, state_json(*state));
    if (state->epoch == 0)
        throw failure(absence_text(*state), exit_failed);
    if (!failed.empty())
        throw failure("mirror of the program failed: " + failed + " (restart the program)", exit_failed);
    return status_of(missing_copies(*state));
}

// Returns the set that a program on this machine has open, or opens it.
std::unique_ptr<usable_set> use(const options &opts, const cfg_ptr &cfg, const progress &display)
{
    if (auto writer = writer_set::find(cfg.get()))
        return writer;
    check_not_in_use(cfg.get());
    call([&] { return rpma_mirror_cfg_set_resync_options(cfg.get(), display.resync_options()); });
    return std::make_unique<open_set>(cfg.get(), opts.force);
}

exit_status create(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    call([&] { return rpma_mirror_create(cfg.get()); });
    const auto state = inspect(cfg.get());
    print(opts, state_text(*state), state_json(*state));
    return exit_done;
}

// Verifies a set. Opening it would resync the copies, so only an open or cleanly closed set can have differences.
exit_status verify(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    progress display(opts);
    const auto set = use(opts, cfg, display);
    const auto opening = set->opening();
    const auto state = set->state();
    std::vector<std::vector<std::string>> rows = {{"COPY", "LEVEL", "COMPARED", "DIFFERENT", "FIRST", "WHERE"}};
    json copies = json::array();
    bool equal = true, found = false;
    for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy) {
        const rpma_mirror_copy &c = state->copies[copy];
        if (c.state == RPMA_MIRROR_COPY_ABSENT || c.is_local != 0 || (opts.copy && *opts.copy != copy))
            continue;
        found = true;
        auto report = make_output<rpma_mirror_verify_report>();
        const int code = set->verify(copy, display, *report);
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
        throw failure(fmt::format("target of copy {} not found", opts.copy.value_or(0)), exit_usage);
    display.end_line();
    const char *const reason = !opening                   ? nullptr
                               : opening->was_clean == 0  ? "the set was not closed cleanly"
                               : opening->sent_bytes != 0 ? "files of a copy were changed after the close"
                                                          : nullptr;
    const std::string before =
            reason == nullptr ? "" : fmt::format("{}: opening it sent {}\n\n", reason, size_text(opening->sent_bytes));
    const std::string outcome =
            equal ? "the copies are equal"
                  : fmt::format("copies differ: not repaired ({} overwrites them with the local copy)",
                            opening ? "rpma-mirror resync" : "the close of the set");
    json value = {{"equal", equal}};
    if (opening)
        value.update({{"was_clean", opening->was_clean != 0}, {"resynced_bytes", opening->sent_bytes}});
    value["copies"] = copies;
    print(opts, before + table(rows) + '\n' + outcome + '\n', value);
    // Closing would overwrite the other copies with the local one, which can be the damaged one.
    set->end(!equal);
    return equal ? exit_done : exit_failed;
}

exit_status recover(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    progress display(opts);
    call([&] { return rpma_mirror_cfg_set_resync_options(cfg.get(), display.resync_options()); });
    auto report = make_output<rpma_mirror_recovery_report>();
    call([&] { return rpma_mirror_recover(cfg.get(), opts.force ? RPMA_MIRROR_F_FORCE : 0, report.get()); });
    display.end_line();
    const auto state = inspect(cfg.get());
    const std::vector<unsigned> missing = missing_copies(*state);
    json value = recovery_json(*report);
    value["not_in_sync"] = missing;
    print(opts, recovery_text(*report) + (missing.empty() ? "" : "not in sync: " + list_text(missing) + '\n'), value);
    return opts.command == "promote" ? exit_done : status_of(missing);
}

exit_status resync_open(const options &opts, writer_set &set)
{
    progress display(opts);
    std::string text;
    json failed = json::array();
    for (const unsigned copy : missing_copies(*set.state())) {
        std::string reason;
        if (const int code = set.resync(copy, display, reason); code != 0) {
            text += fmt::format("copy {}: {}\n", copy, reason);
            failed.push_back({{"copy", copy}, {"code", code}, {"message", reason}});
        }
    }
    display.end_line();
    const auto state = set.state();
    const std::vector<unsigned> missing = missing_copies(*state);
    print(opts,
            fmt::format("epoch {}: resynchronized by the program that has the set open\n{}in sync: {}\n{}",
                    state->epoch, text, list_text(copies_of(state->in_sync)),
                    missing.empty() ? "" : "not in sync: " + list_text(missing) + '\n'),
            {{"epoch", state->epoch}, {"in_sync", copies_of(state->in_sync)}, {"not_in_sync", missing},
                    {"failed", failed}, {"consistency_point", state->consistency_point}});
    return status_of(missing);
}

exit_status resync(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    if (const auto writer = writer_set::find(cfg.get()))
        return resync_open(opts, *writer);
    check_not_in_use(cfg.get());
    return recover(opts);
}

exit_status fence(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    std::uint64_t epoch = 0;
    call([&] { return rpma_mirror_fence(cfg.get(), opts.force ? RPMA_MIRROR_F_FORCE : 0, &epoch); });
    print(opts, fmt::format("epoch {}: writers of lower epochs are fenced on every target that responded\n", epoch),
            {{"epoch", epoch}});
    return exit_done;
}

exit_status change(const options &opts, const cfg_ptr &cfg, const std::function<void(usable_set &, progress &)> &f)
{
    progress display(opts);
    const auto set = use(opts, cfg, display);
    f(*set, display);
    display.end_line();
    const auto state = set->state();
    set->end(false);
    print(opts,
            fmt::format("members: {}\nin sync: {}\n{} is changed (change the set files of other machines, too)\n",
                    list_text(copies_of(state->members)), list_text(copies_of(state->in_sync)), opts.set_file),
            {{"members", copies_of(state->members)}, {"in_sync", copies_of(state->in_sync)}});
    return exit_done;
}

bool is_in_sync(const rpma_mirror_copy &copy, const options &opts)
{
    std::string location = opts.location;
    std::erase_if(location, [](char c) { return c == '[' || c == ']'; });
    return copy.state == RPMA_MIRROR_COPY_IN_SYNC && copy.location == location && copy.poolset == opts.pool_set;
}

// Completes a command that was killed: the copy is in sync, so the opening requires it, but its line is missing.
exit_status add(const options &opts)
{
    check_target_words(opts.location, opts.pool_set);
    const cfg_ptr cfg = read_cfg(opts.set_file);
    const unsigned copy = *opts.copy;
    if ((inspect(cfg.get())->in_sync >> copy & 1) != 0)
        call([&] { return rpma_mirror_cfg_add_target(cfg.get(), copy, opts.location.c_str(), opts.pool_set.c_str()); });
    return change(opts, cfg, [&](usable_set &set, progress &display) {
        if (!is_in_sync(set.state()->copies[copy], opts))
            set.add(copy, opts.location, opts.pool_set, display);
        add_target_line(opts.set_file, copy, opts.location, opts.pool_set);
    });
}

exit_status remove_copy(const options &opts)
{
    // A command that was stopped can have removed the copy, but not its line.
    return change(opts, read_cfg(opts.set_file), [&](usable_set &set, progress &display) {
        const int code = set.remove(*opts.copy, display);
        if (!remove_target_line(opts.set_file, *opts.copy) && code != 0)
            throw failure(fmt::format("target of copy {} not found", *opts.copy), exit_failed, code);
    });
}

exit_status grow(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    progress display(opts);
    const auto writer = writer_set::find(cfg.get());
    if (writer) {
        writer->grow(opts.length, display);
    } else {
        check_not_in_use(cfg.get());
        call([&] { return rpma_mirror_cfg_set_resync_options(cfg.get(), display.resync_options()); });
        call([&] { return rpma_mirror_grow_closed(cfg.get(), opts.length); });
    }
    display.end_line();
    const auto state = writer ? writer->state() : inspect(cfg.get());
    const std::vector<unsigned> missing = missing_copies(*state);
    print(opts,
            fmt::format("length: {} bytes\nin sync: {}\n{}", state->length, list_text(copies_of(state->in_sync)),
                    missing.empty() ? "" : "not in sync: " + list_text(missing) + '\n'),
            {{"length", state->length}, {"in_sync", copies_of(state->in_sync)}, {"not_in_sync", missing}});
    return exit_done;
}

exit_status read(const options &opts)
{
    const cfg_ptr cfg = read_cfg(opts.set_file);
    const image_of_set from(cfg.get(), opts.any_time, static_cast<int>(opts.timeout_s) * 1000);
    from.write(opts.file);
    const rpma_mirror_image &image = from.get();
    const char *const words[] = {"", "point", "closed", "any-time"};
    const char *const texts[] = {"", "content at consistency point {}",
            "content when the set was closed, after consistency point {}",
            "content of any time after consistency point {}, not consistent"};
    print(opts,
            fmt::format("{}: {} from copy {}\n", opts.file, size_text(image.length), image.copy) +
                    fmt::format(fmt::runtime(texts[image.consistency]), image.consistency_point) +
                    (image.age_is_proven != 0 ? "\n"
                                              : "\na target in sync did not respond: it may have newer content\n"),
            {{"file", opts.file}, {"length", image.length}, {"copy", image.copy},
                    {"consistency", words[image.consistency]}, {"consistency_point", image.consistency_point},
                    {"newest_point", image.newest_point}, {"epoch", image.epoch}, {"version", image.version},
                    {"age_ms", image.age_ms}, {"age_proven", image.age_is_proven != 0}});
    return exit_done;
}

} // namespace

exit_status run(const options &opts)
{
    const std::map<std::string, exit_status (*)(const options &)> commands = {{"status", show_status},
            {"create", create}, {"verify", verify}, {"resync", resync}, {"promote", recover}, {"fence", fence},
            {"add", add}, {"remove", remove_copy}, {"read", read}, {"grow", grow}};
    try {
        return commands.at(opts.command)(opts);
    } catch (const failure &error) {
        if (opts.json && error.code() != 0)
            print(opts, {},
                    {{"error", {{"code", error.code()}, {"text", rpma_mirror_err_2str(error.code())},
                                       {"message", error.what()}}}});
        throw;
    }
}

} // namespace mirror_tool

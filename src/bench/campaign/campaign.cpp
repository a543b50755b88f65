// SPDX-License-Identifier: BSD-3-Clause
#include "campaign.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/format.h>

#include "engine/clock.hpp"
#include "engine/layout.hpp"
#include "failure.hpp"
#include "text.hpp"

namespace bench
{

namespace
{

constexpr const char *yet_to_do = "not measured yet";
// Two that poll and the threads of a software device.
constexpr std::uint32_t few_cores = 4;

bool is_pending(const point &p)
{
    return p.status == status::failed || (p.status == status::skipped && p.reason == yet_to_do);
}

// Measures p in place. Throws peer_gone only.
void measure_point(ends &where, const timing &t, point &p)
{
    p.repeats.clear();
    p.reason = why_skip(p.setup, where.target());
    if (!p.reason.empty()) {
        p.status = status::skipped;
        return;
    }
    try {
        where.open(p.setup);
        where.warm_up(t.warm_up_limit_s);
        for (std::uint32_t i = 0; i < t.repeats; ++i)
            p.repeats.push_back(where.run(t.duration_s));
        where.close();
    } catch (const failure &problem) {
        p.status = status::failed;
        p.reason = problem.what();
        where.close();
        return;
    }
    const bool verified = std::ranges::all_of(p.repeats, [](const repeat &r) { return r.verified.value_or(true); });
    p.status = verified ? status::done : status::failed;
    p.reason = verified ? "" : "the data is not what was written";
}

} // namespace

std::string now_utc()
{
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

resumed resume_from(const std::string &path, const timing &otherwise)
{
    resumed r{load_results(path), {}};
    if (r.earlier.points.empty() || !r.earlier.pairs.empty())
        throw failure(path + " is not of a run that can be resumed: it plans no points", exit_usage);
    r.plan.profile = r.earlier.profile;
    r.plan.timing = otherwise;
    for (const point &p : r.earlier.points) {
        if (p.status == status::done && !p.repeats.empty()) {
            r.plan.timing.repeats = static_cast<std::uint32_t>(p.repeats.size());
            r.plan.timing.duration_s = std::round(p.repeats.front().duration_s.value_or(1) * 100) / 100;
            break;
        }
    }
    return r;
}

std::vector<setup> settle(const std::vector<setup> &setups, const ends &where)
{
    const environment &e = where.facts().environment;
    const bool crowded = e.same_host && e.server.cores.value_or(few_cores) < few_cores;
    std::vector<setup> settled;
    for (setup one : setups) {
        parameters &p = one.parameters;
        if (p.target == planned_target && where.target().word != "dram")
            p.target = where.target().word;
        const bool both_poll = one.api == api::tcp || needs_responder(workload_from(one.workload));
        if (crowded && both_poll && one.api != api::memcpy)
            p.polling = polling::event;
        append(settled, {one});
    }
    return settled;
}

results begin_results(const std::string &profile, const ends &where)
{
    results r = where.facts();
    r.profile = profile;
    r.started = now_utc();
    r.points.clear();
    environment &e = r.environment;
    e.target_memory = where.target().description;
    e.persistence_level = where.target().persistence;
    for (library &one : r.libraries)
        one.label = "ours";
    if (e.same_host)
        e.notes.emplace_back("Both ends ran on one machine and shared its processors.");
    if (e.same_host && e.server.cores.value_or(few_cores) < few_cores)
        e.notes.push_back(
                fmt::format("With {} processors, programs that poll at both ends keep each other from running: "
                            "where the server's program takes part, both ends slept for completions.",
                        *e.server.cores));
    return r;
}

std::string why_skip(const setup &what, const target_facts &target)
{
    if (std::string reason = why_not(what); !reason.empty())
        return reason;
    if (!target.here && is_replica(workload_from(what.workload)))
        return "the replica is kept on this machine: measure it with rpma-bench local";
    const parameters &p = what.parameters;
    if (p.target != "dram" && p.target != target.word)
        return "the server has no file or PMem to write to: give it --target";
    const bool by_flush = what.api == api::librpma || what.api == api::verbs;
    if (p.flush == flush_kind::persistent && by_flush && what.workload != "gpspm" && what.workload != "aof" &&
            !target.direct_write)
        return "the server does not write directly to PMem (see --direct-write)";
    return {};
}

void add_points(results &r, const std::vector<setup> &setups)
{
    for (const setup &what : setups) {
        point p;
        p.setup = what;
        p.status = status::skipped;
        p.reason = yet_to_do;
        r.points.push_back(std::move(p));
    }
}

bool run_campaign(ends &where, const timing &t, results &r, const std::string &path)
{
    const auto left = static_cast<std::size_t>(std::ranges::count_if(r.points, is_pending));
    progress bar(left, estimate_s(left, t));
    const double before_s = r.duration_s;
    const std::uint64_t begun = now_ns();
    const auto save = [&] {
        r.duration_s = before_s + static_cast<double>(now_ns() - begun) / 1e9;
        r.complete = std::ranges::none_of(r.points, is_pending);
        save_results(path, r);
    };
    save();
    fmt::print("{}\n", headline_of_table());
    std::size_t done = 0;
    for (point &p : r.points) {
        if (!is_pending(p))
            continue;
        bar.show(done++, describe(p.setup));
        try {
            measure_point(where, t, p);
        } catch (const peer_gone &gone) {
            p.status = status::failed;
            p.reason = gone.what();
            save();
            bar.clear();
            fmt::print("{}\n", table_line(p));
            throw failure(
                    fmt::format("{}; the points so far are in {}: go on with --resume {}", gone.what(), path, path));
        }
        save();
        bar.clear();
        fmt::print("{}\n", table_line(p));
        std::fflush(stdout);
    }
    return r.complete;
}

} // namespace bench

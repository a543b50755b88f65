// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

#include "campaign.hpp"
#include "engine/clock.hpp"
#include "failure.hpp"
#include "text.hpp"
#include "units.hpp"
#include "verdict.hpp"

namespace bench
{

namespace
{

std::optional<double> p50_of(const repeat &r)
{
    const auto &list = r.all.latency.percentiles;
    const auto found = std::ranges::find(list, 50.0, &percentile::rank);
    return found == list.end() ? std::nullopt : std::optional(found->ns);
}

std::optional<double> rate_of(const repeat &r)
{
    return r.all.ops_per_s;
}

template<class Get>
void add_pair(results &r, const point &ours, const point &other, const char *metric, Get get)
{
    std::vector<double> mine, theirs, ratios;
    for (std::size_t i = 0; i < ours.repeats.size(); ++i) {
        const std::optional<double> a = get(ours.repeats[i]), b = get(other.repeats[i]);
        if (!a || !b || *b <= 0)
            continue;
        mine.push_back(*a);
        theirs.push_back(*b);
        ratios.push_back(*a / *b);
    }
    if (ratios.empty())
        return;
    bench::pair p;
    p.ours = ours.setup;
    p.other = other.setup;
    p.metric = metric;
    p.ours_value = quantile(mine, 0.5);
    p.other_value = quantile(theirs, 0.5);
    p.ratio = quantile(ratios, 0.5);
    p.ratio_low = quantile(ratios, 0.25);
    p.ratio_high = quantile(ratios, 0.75);
    p.runs = static_cast<std::uint32_t>(ratios.size());
    r.pairs.push_back(p);
}

setup for_contestant(setup what, const contestant &side)
{
    what.api = side.api;
    what.library = side.api == api::librpma ? side.label : "";
    return what;
}

void run_once(const contestant &side, point &p, double duration_s)
{
    p.repeats.push_back(side.where.run(duration_s));
    if (!p.repeats.back().verified.value_or(true))
        throw failure("the data is not what was written");
}

// Each pair of runs begins with the other side than the one before: neither profits from a drift of the machine.
void run_in_turns(const contestant &ours, point &mine, const contestant &other, point &theirs, const timing &t)
{
    for (std::uint32_t i = 0; i < t.repeats; ++i) {
        const bool ours_first = i % 2 == 0;
        run_once(ours_first ? ours : other, ours_first ? mine : theirs, t.duration_s);
        run_once(ours_first ? other : ours, ours_first ? theirs : mine, t.duration_s);
    }
}

void fail_both(point &mine, point &theirs, const std::string &reason)
{
    for (point *const p : {&mine, &theirs}) {
        p->status = status::failed;
        p->reason = reason;
    }
}

void measure_both(const contestant &ours, point &mine, const contestant &other, point &theirs, const timing &t)
try {
    ours.where.open(mine.setup);
    other.where.open(theirs.setup);
    ours.where.warm_up(t.warm_up_limit_s);
    other.where.warm_up(t.warm_up_limit_s);
    run_in_turns(ours, mine, other, theirs, t);
    mine.status = theirs.status = status::done;
    ours.where.close();
    other.where.close();
} catch (const failure &problem) {
    fail_both(mine, theirs, problem.what());
    ours.where.close();
    other.where.close();
}

std::string comparison_line(const results &r, const point &mine)
{
    if (mine.status != status::done)
        return fmt::format("{:<46} FAILED: {}", describe(mine.setup), mine.reason);
    const bench::pair *latency = nullptr, *rate = nullptr;
    for (const bench::pair &p : r.pairs) {
        if (p.ours == mine.setup && p.metric == "latency_p50")
            latency = &p;
        if (p.ours == mine.setup && p.metric == "ops_per_s")
            rate = &p;
    }
    const auto column = [](const bench::pair *p) {
        return p == nullptr ? fmt::format("{:>41}", "-")
                            : fmt::format("{:>10.2f} {:>10.2f}  {:<19}", p->ours_value / 1000, p->other_value / 1000,
                                      interval(p->ratio, p->ratio_low, p->ratio_high));
    };
    return fmt::format("{:<46} {} {}", describe(mine.setup), column(latency), column(rate));
}

// One line for the metrics of all points.
std::string conclusion(const results &r)
{
    if (const std::string why = why_no_conclusion(r); !why.empty())
        return "No conclusion: " + why;
    std::map<std::string, std::array<int, 3>> counts;
    for (const bench::pair &p : r.pairs) {
        const verdict v = judge(p.ratio, p.ratio_low, p.ratio_high, p.metric == "latency_p50");
        ++counts[p.metric].at(static_cast<std::size_t>(v));
    }
    std::string text;
    for (const auto &[metric, count] : counts)
        text += fmt::format("{}{}: {} better, {} worse, {} no difference", text.empty() ? "" : "; ", metric, count[0],
                count[1], count[2]);
    return text;
}

} // namespace

std::vector<setup> comparison_setups()
{
    constexpr std::uint64_t kibibyte = 1024;
    std::vector<setup> all;
    axes sizes;
    sizes.workloads = {"write_flush", "read"};
    sizes.block_sizes = {64, 4 * kibibyte, 64 * kibibyte, 1024 * kibibyte};
    sizes.depths = {1, 16};
    append(all, expand(sizes));
    axes wide;
    wide.workloads = {"write_flush"};
    wide.block_sizes = {64, 4 * kibibyte};
    wide.connections = {4, 16};
    append(all, expand(wide));
    axes others;
    others.workloads = {"send_recv", "write_with_imm", "gpspm", "aof", "atomic_write", "log_append", "mix", "connect"};
    append(all, expand(others));
    return all;
}

bool run_comparison(const contestant &ours, const contestant &other, const std::vector<setup> &setups, const timing &t,
        results &r, const std::string &path)
{
    const double estimate = 2 * estimate_s(setups.size(), t);
    progress bar(setups.size(), estimate);
    const std::uint64_t begun = now_ns();
    r.complete = true;
    fmt::print("{:<46} {:^41} {:^41}\n{:<46} {:>10} {:>10}  {:<19} {:>10} {:>10}  {:<19}\n", "", "p50, µs",
            "thousand operations per second", "", "ours", "other", "ratios of the runs", "ours", "other",
            "ratios of the runs");
    for (std::size_t i = 0; i < setups.size(); ++i) {
        bar.show(i, describe(setups[i]));
        point mine, theirs;
        mine.setup = for_contestant(setups[i], ours);
        theirs.setup = for_contestant(setups[i], other);
        mine.reason = why_skip(mine.setup, ours.where.target());
        if (mine.reason.empty())
            mine.reason = why_skip(theirs.setup, other.where.target());
        if (mine.reason.empty())
            measure_both(ours, mine, other, theirs, t);
        else
            mine.status = theirs.status = status::skipped;
        theirs.reason = mine.reason;
        if (mine.status == status::done) {
            add_pair(r, mine, theirs, "latency_p50", p50_of);
            add_pair(r, mine, theirs, "ops_per_s", rate_of);
        }
        r.complete = r.complete && mine.status != status::failed;
        r.points.push_back(mine);
        r.points.push_back(theirs);
        r.duration_s = static_cast<double>(now_ns() - begun) / 1e9;
        save_results(path, r);
        bar.clear();
        fmt::print("{}\n", comparison_line(r, mine));
        std::fflush(stdout);
    }
    fmt::print("{}\n", conclusion(r));
    return r.complete;
}

} // namespace bench

// SPDX-License-Identifier: BSD-3-Clause
#include "headline.hpp"
#include "figure.hpp"
#include "metric.hpp"
#include "percentile_figures.hpp"
#include "ratio_figures.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

namespace
{

void add(std::string &facts, const std::string &fact)
{
    if (!fact.empty())
        facts += (facts.empty() ? "" : " · ") + fact;
}

// Every point counts once, whatever became of it; the halves of a mix are no points.
std::string counts(std::span<const entry> entries)
{
    std::size_t done = 0, failed = 0, skipped = 0, verified = 0;
    for (const entry &e : entries) {
        if (!e.half.empty())
            continue;
        failed += e.point.status == status::failed;
        skipped += e.point.status == status::skipped;
        done += e.point.status == status::done;
        const auto &repeats = e.point.repeats;
        verified += e.point.status == status::done && !repeats.empty() &&
                    std::ranges::all_of(repeats, [](const repeat &r) { return r.verified == true; });
    }
    std::string words = format_count(done, "point") + " measured";
    if (verified > 0)
        words += verified == done ? ", the data of each compared after the run"
                                  : fmt::format(", the data of {} compared after the run", verified);
    if (failed > 0)
        words += fmt::format(", {} failed", failed);
    if (skipped > 0)
        words += fmt::format(", {} left out", skipped);
    return words;
}

std::string facts(std::span<const run> runs, std::span<const entry> entries)
{
    const environment &where = runs.front().data.environment;
    double seconds = 0;
    bool complete = true;
    for (const run &r : runs) {
        seconds += r.data.duration_s;
        complete = complete && r.data.complete;
    }
    std::string words = counts(entries);
    add(words, seconds >= 1 ? format_duration(seconds) : "");
    add(words, where.transport);
    add(words, where.same_host ? "both ends on one machine" : where.server.cpu.empty() ? "" : "two machines");
    if (!where.client.cpu.empty())
        add(words, (where.client.cores ? fmt::format("{} × ", *where.client.cores) : "") + where.client.cpu);
    add(words, complete ? "" : "incomplete");
    return words;
}

// The operation that the library is for comes first.
const entry *flagship(std::span<const entry> entries)
{
    const std::uint64_t size = usual_block_size(entries);
    const entry *best = nullptr;
    int best_rank = 0;
    for (const entry &e : entries) {
        const parameters &p = e.parameters();
        if (e.setup().api != api::librpma || !e.half.empty() || !at_rest(p) ||
                !summarize(e.point, metric_of("latency_p50")))
            continue;
        const std::string &w = e.setup().workload;
        int rank = w == "write_flush" ? 4 : w == "read" ? 3 : w == "connect" ? 1 : 2;
        rank = 4 * rank + 2 * (p.flush == flush_kind::persistent) + (p.block_size == size);
        if (rank > best_rank) {
            best = &e;
            best_rank = rank;
        }
    }
    return best;
}

const entry *highest(std::span<const entry> entries, const metric &m)
{
    const entry *best = nullptr;
    double value = 0;
    for (const entry &e : entries) {
        const auto s = e.half.empty() && e.setup().api == api::librpma ? summarize(e.point, m) : std::nullopt;
        if (s && s->median > value) {
            best = &e;
            value = s->median;
        }
    }
    return best;
}

card card_of(const entry &e, const char *key, const char *label)
{
    std::string conditions = text(attribute::operation, e);
    for (const attribute a : {attribute::block_size, attribute::target, attribute::depth, attribute::connections})
        add(conditions, text(a, e));
    const metric &m = metric_of(key);
    return {format(summarize(e.point, m)->median, m.measured_in), label, conditions, ""};
}

// Time per operation beside something else, over all that was measured of both.
std::optional<card> standing(std::span<const run> runs, std::span<const entry> entries)
{
    std::vector<double> ratios;
    std::string other = "raw verbs", refusal;
    for (const run &r : runs) {
        refusal = refusal.empty() ? why_no_conclusion(r.data) : refusal;
        for (const pair &p : r.data.pairs) {
            if (p.metric != "latency_p50" || p.ratio == 0)
                continue;
            ratios.push_back(p.ratio);
            other = side(p.other);
        }
    }
    if (ratios.empty()) {
        for (const ratio_row &row : beside_verbs(entries))
            ratios.push_back(row.ratio);
    }
    if (ratios.empty())
        return std::nullopt;
    const std::string label = "time per operation beside " + (other == "other" ? "the other library" : other);
    if (!refusal.empty())
        return card{"no conclusion", label, refusal, "even"};
    const double ratio = median_of(ratios), low = quantile(ratios, 0.25), high = quantile(ratios, 0.75);
    const verdict v = judge(ratio, low, high, true);
    return card{v == verdict::no_difference ? to_words(v) : fmt::format("{:+.0f} %", (ratio - 1) * 100), label,
            fmt::format("ratio {}: median and middle half of {}", interval(ratio, low, high),
                    format_count(ratios.size(), "comparison")),
            style_of(v)};
}

} // namespace

headline headline_of(std::span<const run> runs, std::span<const entry> entries)
{
    headline h;
    h.facts = facts(runs, entries);
    if (const entry *const e = flagship(entries))
        h.cards.push_back(card_of(*e, "latency_p50", "median latency"));
    if (const entry *const e = highest(entries, metric_of("bytes_per_s")))
        h.cards.push_back(card_of(*e, "bytes_per_s", "highest bandwidth"));
    if (const auto beside = standing(runs, entries))
        h.cards.push_back(*beside);
    else if (const entry *const e = highest(entries, metric_of("ops_per_s")))
        h.cards.push_back(card_of(*e, "ops_per_s", "most operations per second"));

    const environment &where = runs.front().data.environment;
    if (!where.persistence_level.empty())
        h.notes.push_back("Persistence: " + where.persistence_level + ".");
    h.notes.insert(h.notes.end(), where.notes.begin(), where.notes.end());
    if (was_busy(where.client))
        h.notes.push_back(
                fmt::format("Load at the start: {:.1f} on {} processors. The machine was busy with other work.",
                        *where.client.load, *where.client.cores));
    return h;
}

} // namespace bench::report

// SPDX-License-Identifier: BSD-3-Clause
#include "headline.hpp"
#include "figure.hpp"
#include "metric.hpp"

#include <algorithm>
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
void add_counts(std::string &facts, std::span<const entry> entries)
{
    std::size_t all = 0, failed = 0, skipped = 0, verified = 0;
    for (const entry &e : entries) {
        if (!e.half.empty())
            continue;
        ++all;
        failed += e.point.status == status::failed;
        skipped += e.point.status == status::skipped;
        const auto &repeats = e.point.repeats;
        verified += e.point.status == status::done && !repeats.empty() &&
                    std::ranges::all_of(repeats, [](const repeat &r) { return r.verified == true; });
    }
    add(facts, format_count(all, "point"));
    for (const auto &[count, word] : {std::pair(verified, "verified"), {failed, "failed"}, {skipped, "skipped"}})
        add(facts, count > 0 ? fmt::format("{} {}", count, word) : "");
}

std::string facts_of(std::span<const run> runs, std::span<const entry> entries)
{
    const environment &where = runs.front().data.environment;
    double seconds = 0;
    bool complete = true;
    for (const run &r : runs) {
        seconds += r.data.duration_s;
        complete = complete && r.data.complete;
    }
    std::string facts;
    add_counts(facts, entries);
    add(facts, seconds >= 1 ? format_duration(seconds) : "");
    add(facts, where.transport);
    add(facts, where.same_host ? "one machine" : where.server.cpu.empty() ? "" : "two machines");
    if (!where.client.cpu.empty())
        add(facts, (where.client.cores ? fmt::format("{} × ", *where.client.cores) : "") + where.client.cpu);
    add(facts, complete ? "" : "incomplete");
    return facts;
}

// Of those with the metric that librpma measured, the one with the highest score; null without any.
template<class Score>
const entry *best(std::span<const entry> entries, const char *key, Score score)
{
    const entry *found = nullptr;
    double highest = 0;
    for (const entry &e : entries) {
        const bool ours = e.half.empty() && e.setup().api == api::librpma;
        const auto s = ours ? summarize(e.point, metric_of(key)) : std::nullopt;
        if (s && score(e, *s) > highest) {
            found = &e;
            highest = score(e, *s);
        }
    }
    return found;
}

const entry *highest(std::span<const entry> entries, const char *key)
{
    return best(entries, key, [](const entry &, const summary &s) { return s.median; });
}

// The operation that the library is for comes first.
const entry *flagship(std::span<const entry> entries)
{
    return best(entries, "latency_p50", [size = usual_block_size(entries)](const entry &e, const summary &) {
        const parameters &p = e.parameters();
        const std::string &w = e.setup().workload;
        const int rank = w == "write_flush" ? 4 : w == "read" ? 3 : w == "connect" ? 1 : 2;
        return at_rest(p) * (4 * rank + 2 * (p.flush == flush_kind::persistent) + (p.block_size == size));
    });
}

void add_card(headline &h, const entry *e, const char *key, const char *label)
{
    if (!e)
        return;
    std::string conditions = text(attribute::operation, *e);
    for (const attribute a : {attribute::block_size, attribute::target, attribute::depth, attribute::connections})
        add(conditions, text(a, *e));
    const metric &m = metric_of(key);
    h.cards.push_back({format(summarize(e->point, m)->median, m.measured_in), label, conditions, ""});
}

} // namespace

headline headline_of(std::span<const run> runs, std::span<const entry> entries)
{
    headline h;
    h.facts = facts_of(runs, entries);
    add_card(h, flagship(entries), "latency_p50", "median latency");
    add_card(h, highest(entries, "bytes_per_s"), "bytes_per_s", "highest bandwidth");
    if (const ratio_row all = overall_ratio(runs, entries); all.label.empty())
        add_card(h, highest(entries, "ops_per_s"), "ops_per_s", "most operations per second");
    else
        h.cards.push_back({all.style == "even" ? all.words : fmt::format("{:+.0f} %", (all.ratio - 1) * 100), all.label,
                interval(all.ratio, all.low, all.high) + ", median and middle half", all.style});

    for (const run &r : runs) {
        if (const std::string why = why_no_conclusion(r.data); !why.empty())
            h.notes.push_back("No conclusion: " + why);
        h.notes.insert(h.notes.end(), r.data.environment.notes.begin(), r.data.environment.notes.end());
    }
    return h;
}

} // namespace bench::report

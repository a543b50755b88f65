// SPDX-License-Identifier: BSD-3-Clause
#include "headline.hpp"
#include "caption.hpp"
#include "metric.hpp"
#include "percentile_figures.hpp"
#include "ratio_figures.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace bench::report
{

namespace
{

std::string join(const std::vector<std::string> &words)
{
    std::string joined;
    for (std::size_t i = 0; i < words.size(); ++i)
        joined += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
    return joined;
}

std::vector<std::string> operations(std::span<const entry> entries)
{
    std::vector<std::string> names;
    for (const entry &e : entries) {
        std::string name = text(attribute::operation, e);
        if (e.half.empty() && std::ranges::find(names, name) == names.end())
            names.push_back(std::move(name));
    }
    return names;
}

// 0 when it was not measured.
double median_latency(const entry &e)
{
    const auto s = summarize(e.point, metric_of("latency_p50"));
    return s ? s->median : 0;
}

std::string place(const environment &e)
{
    std::string words = e.transport.empty() ? "" : " over " + e.transport;
    if (e.same_host)
        words += ", both ends on one machine";
    else if (!e.server.cpu.empty())
        words += ", between two machines";
    if (!e.client.cpu.empty())
        words += fmt::format(" ({}{})", e.client.cores ? fmt::format("{} × ", *e.client.cores) : "", e.client.cpu);
    return words;
}

// Counts of what went well and what did not, for the whole report.
std::string outcome(std::span<const entry> entries)
{
    std::size_t verified = 0, unverified = 0, failed = 0, skipped = 0;
    for (const entry &e : entries) {
        if (!e.half.empty())
            continue;
        failed += e.point.status == status::failed;
        skipped += e.point.status == status::skipped;
        const auto &repeats = e.point.repeats;
        if (e.point.status != status::done || repeats.empty())
            continue;
        const bool good = std::ranges::all_of(repeats, [](const repeat &r) { return r.verified == true; });
        (good ? verified : unverified) += 1;
    }
    std::string words;
    if (verified > 0 && unverified == 0)
        words = " The data of every point was compared after the run.";
    else if (verified > 0)
        words = fmt::format(" The data of {} was compared after the run.", format_count(verified, "point"));
    if (failed > 0)
        words += fmt::format(" {} failed.", format_count(failed, "point"));
    if (skipped > 0)
        words += fmt::format(" {} left out.", format_count(skipped, "point") + (skipped == 1 ? " was" : " were"));
    return words;
}

std::string paragraph(std::span<const run> runs, std::span<const entry> entries)
{
    const results &first = runs.front().data;
    std::size_t points = 0;
    double seconds = 0;
    bool complete = true;
    for (const run &r : runs) {
        points += r.data.points.size();
        seconds += r.data.duration_s;
        complete = complete && r.data.complete;
    }
    std::vector<std::string> names = operations(entries);
    if (names.size() > 6) {
        const std::size_t more = names.size() - 5;
        names.resize(5);
        names.push_back(format_count(more, "other operation"));
    }
    std::string words = "Measured: " + (names.empty() ? "libraries in turns" : join(names)) + place(first.environment);
    if (points > 0)
        words += fmt::format("; {}", format_count(points, "point"));
    if (seconds >= 1)
        words += fmt::format(" in {}", format_duration(seconds));
    words += "." + outcome(entries);
    if (!complete)
        words += " The run is incomplete: what is missing is named below.";
    return words;
}

// The same operation over another interface.
const entry *beside(const entry &e, std::span<const entry> entries, api other)
{
    const auto found = std::ranges::find_if(entries, [&](const entry &o) {
        parameters alike = o.parameters();
        // A baseline waits in its own way.
        if (other != api::verbs)
            alike.polling = e.parameters().polling;
        return o.setup().api == other && o.half.empty() && o.setup().workload == e.setup().workload &&
               alike == e.parameters() && o.run == e.run && median_latency(o) > 0;
    });
    return found == entries.end() ? nullptr : &*found;
}

// The operation that the library is for comes first.
const entry *flagship(std::span<const entry> entries, bool beside_others)
{
    const std::uint64_t size = usual_block_size(entries);
    const entry *best = nullptr;
    int best_rank = 0;
    for (const entry &e : entries) {
        const parameters &p = e.parameters();
        if (e.setup().api != api::librpma || !e.half.empty() || !at_rest(p) || median_latency(e) == 0)
            continue;
        if (beside_others && !beside(e, entries, api::verbs) && !beside(e, entries, api::tcp))
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

std::string conditions(const entry &e)
{
    std::string words = text(attribute::operation, e);
    for (const attribute a : {attribute::block_size, attribute::target, attribute::depth, attribute::connections})
        words += ", " + text(a, e);
    return words;
}

card latency_card(const entry &e)
{
    std::string detail = conditions(e);
    if (const auto tail = summarize(e.point, metric_of("latency_p99_9")))
        detail += "; 99.9 % are done in " + format(tail->median, unit::time_ns);
    return {format(median_latency(e), unit::time_ns), "median latency", detail};
}

card highest_card(const entry &e, const metric &m, const char *label)
{
    return {format(summarize(e.point, m)->median, m.measured_in), label, conditions(e)};
}

// How ours fares beside something else, above 1 is worse.
struct standing {
    double ratio;
    std::string other;
    std::size_t count;
};

std::optional<standing> standing_of(std::span<const run> runs, std::span<const entry> entries)
{
    std::vector<double> ratios;
    std::string other;
    for (const run &r : runs) {
        for (const pair &p : r.data.pairs) {
            if (p.metric != "latency_p50" || p.ratio == 0)
                continue;
            ratios.push_back(p.ratio);
            other = side(p.other);
        }
    }
    if (ratios.empty()) {
        other = "raw verbs";
        for (const ratio_row &row : beside_verbs(entries))
            ratios.push_back(row.ratio);
    }
    if (ratios.empty())
        return std::nullopt;
    return standing{median_of(ratios), other, ratios.size()};
}

card standing_card(const standing &s)
{
    const double percent = std::round((s.ratio - 1) * 1000) / 10;
    return {fmt::format("{}{:.1f} %",
                    percent < 0   ? "−"
                    : percent > 0 ? "+"
                                  : "±",
                    std::abs(percent)),
            "cost beside " + (s.other == "other" ? "the other library" : s.other),
            fmt::format("time per operation, median of {}; less is better", format_count(s.count, "comparison"))};
}

// With other work, before the run.
bool was_busy(const host &h)
{
    return h.load && h.cores && *h.load > 0.5 * *h.cores;
}

std::string processors(const entry &e, const environment &where)
{
    const auto busy = summarize(e.point, metric_of("cpu_busy"));
    if (!busy || !where.client.cores || !where.same_host || was_busy(where.client))
        return "";
    const double used = busy->median / 100, all = *where.client.cores;
    if (used >= 0.8 * all)
        return fmt::format("At the highest bandwidth both ends together keep {:.1f} of {:.0f} processors busy: "
                           "processor time is the limit.",
                used, all);
    return fmt::format(
            "At the highest bandwidth both ends together keep {:.1f} of {:.0f} processors busy: the time goes "
            "into waiting for each other, not into computing.",
            used, all);
}

void limits_of_latency(std::vector<std::string> &limits, const entry &e, std::span<const entry> entries)
{
    const std::string what = text(attribute::operation, e) + " of " + text(attribute::block_size, e);
    const auto ratio_to = [&](api other) {
        const entry *o = beside(e, entries, other);
        return o ? median_latency(*o) / median_latency(e) : 0;
    };
    if (const double verbs = ratio_to(api::verbs); verbs > 0)
        limits.push_back(fmt::format("With raw verbs in the place of librpma, {} takes {}{}.", what,
                compared(verbs, "longer", "less time"),
                std::abs(verbs - 1) <= noise ? ": the device sets the time, not the library" : ""));
    if (const double tcp = ratio_to(api::tcp); tcp > 0)
        limits.push_back(fmt::format("A plain TCP exchange of the same size takes {}.",
                tcp >= 2 ? fmt::format("{:.3g} times as long", tcp) : compared(tcp, "longer", "less time")));
    if (const double copy = ratio_to(api::memcpy); copy > 0)
        limits.push_back(fmt::format("Copying the block within one process takes {}: the rest is the way to the other "
                                     "side and back.",
                compared(copy, "longer", "less time")));
}

// What durability adds to a flush that makes data visible.
std::string price_of_persistence(const entry &e, std::span<const entry> entries)
{
    if (e.setup().workload != "write_flush" || e.parameters().flush != flush_kind::persistent)
        return "";
    for (const entry &o : entries) {
        const parameters &p = o.parameters();
        const bool visible = o.setup().api == api::librpma && o.setup().workload == "write_flush" &&
                             p.flush == flush_kind::visibility && at_rest(p) &&
                             p.block_size == e.parameters().block_size;
        if (visible && median_latency(o) > 0)
            return fmt::format("A flush to visibility of the same size takes {}, one to persistence {}: the difference "
                               "is the target's memory ({}).",
                    format(median_latency(o), unit::time_ns), format(median_latency(e), unit::time_ns),
                    text(attribute::target, e));
    }
    return "";
}

// Whether the machine was quiet enough for what was measured.
void limits_of_trust(std::vector<std::string> &limits, const environment &where, std::span<const entry> entries)
{
    const host &client = where.client;
    if (was_busy(client))
        limits.push_back(fmt::format("The machine was busy with other work: its load was {:.1f} on {} processors when "
                                     "the run began. The slow operations show its scheduler, not the library.",
                *client.load, *client.cores));
    std::size_t repeated = 0, wide = 0;
    for (const entry &e : entries) {
        const auto s = summarize(e.point, metric_of("latency_p50"));
        if (e.point.repeats.size() < 2 || !s || s->median == 0)
            continue;
        ++repeated;
        wide += (s->high - s->low) / s->median > 0.2;
    }
    if (wide * 4 > repeated)
        limits.push_back(fmt::format("The repeats of {} of {} differ by more than 20 %: differences smaller than that "
                                     "mean little here.",
                wide, format_count(repeated, "point")));
}

} // namespace

headline headline_of(std::span<const run> runs, std::span<const entry> entries)
{
    headline h;
    h.paragraph = paragraph(runs, entries);
    const entry *main = flagship(entries, false), *compared_one = flagship(entries, true);
    const entry *fastest = highest(entries, metric_of("bytes_per_s"));
    if (main)
        h.cards.push_back(latency_card(*main));
    if (fastest)
        h.cards.push_back(highest_card(*fastest, metric_of("bytes_per_s"), "highest bandwidth"));
    if (const auto s = standing_of(runs, entries))
        h.cards.push_back(standing_card(*s));
    else if (const entry *most = highest(entries, metric_of("ops_per_s")))
        h.cards.push_back(highest_card(*most, metric_of("ops_per_s"), "most operations per second"));

    const environment &where = runs.front().data.environment;
    if (compared_one)
        limits_of_latency(h.limits, *compared_one, entries);
    if (main)
        h.limits.push_back(price_of_persistence(*main, entries));
    if (fastest)
        h.limits.push_back(processors(*fastest, where));
    if (!where.persistence_level.empty())
        h.limits.push_back("Persistence: " + where.persistence_level + ".");
    for (const std::string &note : where.notes)
        h.limits.push_back(note);
    limits_of_trust(h.limits, where, entries);
    std::erase(h.limits, "");
    return h;
}

} // namespace bench::report

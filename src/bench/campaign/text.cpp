// SPDX-License-Identifier: BSD-3-Clause
#include "text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "engine/clock.hpp"
#include "plan.hpp"
#include "units.hpp"

namespace bench
{

namespace
{

std::string size_text(std::uint64_t bytes)
{
    return format(static_cast<double>(bytes), unit::bytes);
}

template<class Get>
std::string median_text(const point &p, unit measured_in, Get get)
{
    std::vector<double> values;
    for (const repeat &r : p.repeats) {
        if (const std::optional<double> value = get(r))
            values.push_back(*value);
    }
    const std::optional<double> middle = median(values);
    return middle ? format(*middle, measured_in) : "-";
}

std::optional<double> percentile_of(const repeat &r, double rank)
{
    for (const percentile &one : r.all.latency.percentiles) {
        if (one.rank == rank)
            return one.ns;
    }
    return std::nullopt;
}

// A multi-byte character is one column wide.
std::string pad_left(const std::string &text, std::size_t width)
{
    const auto columns = static_cast<std::size_t>(
            std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
    return columns < width ? std::string(width - columns, ' ') + text : text;
}

constexpr std::size_t name_width = 50;

} // namespace

std::string describe(const setup &what)
{
    const parameters &p = what.parameters;
    const parameters plain;
    std::string text = what.workload;
    if (p.block_size != 0)
        text += " " + size_text(p.block_size);
    text += std::string(" ") + to_word(what.api);
    if (what.api == api::librpma && !what.library.empty() && what.library != "ours")
        text += " (" + what.library + ")";
    if (p.flush == flush_kind::persistent)
        text += " persistent";
    if (p.target != plain.target)
        text += " " + p.target;
    if (p.depth != 1)
        text += fmt::format(" depth {}", p.depth);
    if (p.connections != 1)
        text += fmt::format(" connections {}", p.connections);
    if (p.threads != 1)
        text += fmt::format(" threads {}", p.threads);
    if (p.flush_interval != 1)
        text += fmt::format(" flush interval {}", p.flush_interval);
    if (p.read_percent)
        text += fmt::format(" reads {} %", *p.read_percent);
    if (p.polling != plain.polling)
        text += std::string(" ") + to_word(p.polling);
    if (p.access != plain.access)
        text += std::string(" ") + to_word(p.access);
    if (p.cpu_load != 0)
        text += fmt::format(" load {} %", p.cpu_load);
    return text;
}

std::string headline_of_table()
{
    return fmt::format("{:<{}} {:>10} {:>10} {:>10} {:>12}", "", name_width, "p50", "p99", "ops", "bandwidth");
}

std::string table_line(const point &p)
{
    const std::string name = describe(p.setup);
    if (p.status == status::skipped)
        return fmt::format("{:<{}} skipped: {}", name, name_width, p.reason);
    if (p.status == status::failed)
        return fmt::format("{:<{}} FAILED: {}", name, name_width, p.reason);
    const auto p50 = [](const repeat &r) { return percentile_of(r, 50); };
    const auto p99 = [](const repeat &r) { return percentile_of(r, 99); };
    const auto rate = [](const repeat &r) { return r.all.ops_per_s; };
    const auto bytes = [](const repeat &r) { return r.all.bytes_per_s; };
    return fmt::format("{:<{}} {} {} {} {}", name, name_width, pad_left(median_text(p, unit::time_ns, p50), 10),
            pad_left(median_text(p, unit::time_ns, p99), 10), pad_left(median_text(p, unit::per_s, rate), 10),
            pad_left(median_text(p, unit::bytes_per_s, bytes), 12));
}

std::optional<double> median(std::vector<double> values)
{
    if (values.empty())
        return std::nullopt;
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

progress::progress(std::size_t points, double estimate_s)
    : on_terminal_(isatty(STDERR_FILENO) == 1), points_(points), estimate_s_(estimate_s), begun_ns_(now_ns())
{
}

progress::~progress()
{
    clear();
}

void progress::show(std::size_t done, const std::string &now)
{
    if (!on_terminal_)
        return;
    constexpr std::size_t width = 24;
    const std::size_t full = points_ == 0 ? width : width * done / points_;
    const double elapsed_s = static_cast<double>(now_ns() - begun_ns_) / 1e9;
    const auto seconds = static_cast<unsigned>(left_s(done, points_, estimate_s_, elapsed_s));
    fmt::print(stderr, "\r\033[K[{}{}] {}/{}  {}:{:02} left  {}", std::string(full, '#'),
            std::string(width - full, '.'), done, points_, seconds / 60, seconds % 60, now);
    std::fflush(stderr);
}

void progress::clear()
{
    if (on_terminal_)
        fmt::print(stderr, "\r\033[K");
}

} // namespace bench

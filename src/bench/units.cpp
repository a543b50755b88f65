// SPDX-License-Identifier: BSD-3-Clause
#include "units.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <span>

namespace bench
{

namespace
{

struct step {
    double size;
    const char *name;
};

constexpr std::array times = {step{1, " ns"}, step{1e3, " µs"}, step{1e6, " ms"}, step{1e9, " s"}};
constexpr std::array sizes = {
        step{1, " B"}, step{0x1p10, " KiB"}, step{0x1p20, " MiB"}, step{0x1p30, " GiB"}, step{0x1p40, " TiB"}};
constexpr std::array bandwidths = {
        step{1, " B/s"}, step{1e3, " kB/s"}, step{1e6, " MB/s"}, step{1e9, " GB/s"}, step{1e12, " TB/s"}};
constexpr std::array rates = {step{1, " /s"}, step{1e3, " k/s"}, step{1e6, " M/s"}, step{1e9, " G/s"}};
constexpr std::array plain = {step{1, ""}};
constexpr std::array percents = {step{1, " %"}};

std::span<const step> steps_of(unit u)
{
    switch (u) {
    case unit::time_ns:
        return times;
    case unit::bytes:
        return sizes;
    case unit::bytes_per_s:
        return bandwidths;
    case unit::per_s:
        return rates;
    case unit::percent:
        return percents;
    case unit::none:
    case unit::ratio:
        break;
    }
    return plain;
}

// The largest step that leaves at least one; 999.7 ns is 1 µs, because it would be written as 1000 ns.
const step &step_of(double value, unit u)
{
    const std::span<const step> steps = steps_of(u);
    const step *chosen = &steps.front();
    for (const step &s : steps) {
        if (std::abs(value) >= s.size * 0.9995)
            chosen = &s;
    }
    return *chosen;
}

std::string three_digits(double value)
{
    const double size = std::abs(value);
    if (size >= 99.95 || size == 0)
        return fmt::format("{:.0f}", value);
    if (size >= 9.995)
        return fmt::format("{:.1f}", value);
    if (size >= 0.9995)
        return fmt::format("{:.2f}", value);
    return fmt::format("{:.3g}", value);
}

} // namespace

std::string format(double value, unit u)
{
    if (u == unit::ratio)
        return fmt::format("{:.2f}", value);
    const step &s = step_of(value, u);
    const double scaled = value / s.size;
    const bool whole = u == unit::bytes || u == unit::none;
    return (whole && scaled == std::floor(scaled) ? fmt::format("{:.0f}", scaled) : three_digits(scaled)) + s.name;
}

std::string interval(double ratio, double low, double high)
{
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio, low, high);
}

std::string format_tick(double value, unit u)
{
    if (value == 0)
        return "0";
    const step &s = step_of(value, u);
    return fmt::format("{:.4g}", value / s.size) + s.name;
}

std::string format_duration(double seconds)
{
    const auto whole = static_cast<long>(std::lround(seconds));
    if (whole < 60)
        return fmt::format("{} s", whole);
    if (whole < 3600)
        return fmt::format("{} min {} s", whole / 60, whole % 60);
    return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string format_count(std::size_t count, const std::string &noun)
{
    const std::string digits = std::to_string(count);
    std::string grouped;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0)
            grouped += ',';
        grouped += digits[i];
    }
    return grouped + " " + noun + (count == 1 ? "" : "s");
}

} // namespace bench

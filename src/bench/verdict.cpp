// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench
{

namespace
{

// The middle half of a pair's ratios spans more than this where something else decided how fast the runs were.
constexpr double widest = 1.5;

constexpr const char *remedy = "end other work on the machine, or measure longer (--repeats 45), and measure again";

} // namespace

verdict judge(double ratio, double low, double high, bool lower_is_better)
{
    if ((low <= 1 && high >= 1) || std::abs(ratio - 1) <= noise)
        return verdict::no_difference;
    return (ratio < 1) == lower_is_better ? verdict::better : verdict::worse;
}

const char *to_words(verdict v)
{
    if (v == verdict::no_difference)
        return "no difference";
    return v == verdict::better ? "better" : "worse";
}

bool was_busy(const host &h)
{
    return h.load && h.cores && *h.load > 0.5 * *h.cores;
}

std::string why_no_conclusion(const results &r)
{
    for (const host *const h : {&r.environment.client, &r.environment.server}) {
        if (was_busy(*h))
            return fmt::format(
                    "the load was {:.1f} on {} processors when the run began: {}", *h->load, *h->cores, remedy);
    }
    if (r.pairs.empty())
        return "";
    const auto wide = std::ranges::count_if(r.pairs, [](const pair &p) { return p.ratio_high > widest * p.ratio_low; });
    if (wide * 4 <= static_cast<std::ptrdiff_t>(r.pairs.size()))
        return "";
    return fmt::format(
            "the runs of {} of {} comparisons differ too much among themselves: {}", wide, r.pairs.size(), remedy);
}

double quantile(std::vector<double> values, double q)
{
    std::ranges::sort(values);
    const double at = q * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

} // namespace bench

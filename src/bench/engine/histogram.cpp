// SPDX-License-Identifier: BSD-3-Clause
#include "histogram.hpp"

#include <algorithm>
#include <cmath>

namespace bench
{

void histogram::merge(const histogram &other)
{
    for (std::size_t i = 0; i < bucket_count; ++i)
        counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
}

double histogram::bucket_max(std::size_t index)
{
    if (index < 2 * parts)
        return static_cast<double>(index);
    const std::size_t shift = index / parts - 1;
    return std::ldexp(static_cast<double>(index % parts + parts + 1), static_cast<int>(shift)) - 1;
}

double histogram::value_at(double rank) const
{
    const auto required = static_cast<std::uint64_t>(std::ceil(rank / 100 * static_cast<double>(count_)));
    std::uint64_t counted = 0;
    for (std::size_t i = 0; i < bucket_count; ++i) {
        counted += counts_[i];
        if (counted >= required)
            return std::min(bucket_max(i), static_cast<double>(max_));
    }
    return static_cast<double>(max_);
}

bench::latency histogram::summary() const
{
    bench::latency summary;
    if (count_ == 0)
        return summary;
    const double mean = static_cast<double>(sum_) / static_cast<double>(count_);
    double squares = 0;
    for (std::size_t i = 0; i < bucket_count; ++i) {
        if (counts_[i] == 0)
            continue;
        const double value = std::min(bucket_max(i), static_cast<double>(max_));
        squares += static_cast<double>(counts_[i]) * (value - mean) * (value - mean);
        summary.histogram.push_back({value, counts_[i]});
    }
    summary.min_ns = static_cast<double>(min_);
    summary.mean_ns = mean;
    summary.max_ns = static_cast<double>(max_);
    summary.stddev_ns = std::sqrt(squares / static_cast<double>(count_));
    for (const double rank : {50.0, 90.0, 99.0, 99.9, 99.99, 99.999}) {
        // Omits a rank with less than one sample above it, whose value would be the maximum. 100 - 99.9 is not exact.
        if (std::round((100 - rank) * 1000) * static_cast<double>(count_) >= 100'000)
            summary.percentiles.push_back({rank, value_at(rank)});
    }
    return summary;
}

} // namespace bench

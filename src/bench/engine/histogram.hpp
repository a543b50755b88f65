// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "results.hpp"

namespace bench
{

// HDR histogram of durations: 128 buckets for each power of two, so values from 1 ns to centuries have an error of at
// most 0.8 %. Recording takes a few instructions and no memory. Debian has no such library for C or C++.
class histogram
{
public:
    void record(std::uint64_t ns)
    {
        ++counts_[index_of(ns)];
        ++count_;
        sum_ += ns;
        min_ = ns < min_ ? ns : min_;
        max_ = ns > max_ ? ns : max_;
    }
    void merge(const histogram &other);
    std::uint64_t count() const { return count_; }
    bench::latency summary() const;

private:
    static constexpr unsigned part_bits = 7;
    static constexpr std::size_t parts = std::size_t{1} << part_bits;
    static constexpr std::size_t bucket_count = (64 - part_bits + 1) * parts;

    static std::size_t index_of(std::uint64_t ns)
    {
        if (ns < parts)
            return static_cast<std::size_t>(ns);
        const auto shift = static_cast<unsigned>(std::bit_width(ns)) - part_bits - 1;
        return (shift * parts) + static_cast<std::size_t>(ns >> shift);
    }
    static double bucket_max(std::size_t index);
    double value_at(double rank) const;

    std::array<std::uint64_t, bucket_count> counts_{};
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t min_ = UINT64_MAX;
    std::uint64_t max_ = 0;
};

} // namespace bench

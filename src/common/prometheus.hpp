// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

namespace prometheus
{

// Histogram of durations. Thread-safe, without locks.
class histogram
{
public:
    // Upper bounds of the buckets, in nanoseconds. The last bucket has none.
    static constexpr std::array<std::uint64_t, 13> bounds_ns = {1'000, 3'000, 10'000, 30'000, 100'000, 300'000,
            1'000'000, 3'000'000, 10'000'000, 30'000'000, 100'000'000, 300'000'000, 1'000'000'000};

    void add(std::uint64_t ns) noexcept
    {
        std::size_t bucket = 0;
        while (bucket < bounds_ns.size() && ns > bounds_ns[bucket])
            ++bucket;
        counts_[bucket].fetch_add(1, std::memory_order_relaxed);
        sum_ns_.fetch_add(ns, std::memory_order_relaxed);
    }
    std::uint64_t count(std::size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
    std::uint64_t sum_ns() const { return sum_ns_.load(std::memory_order_relaxed); }

private:
    std::array<std::atomic<std::uint64_t>, bounds_ns.size() + 1> counts_{};
    std::atomic<std::uint64_t> sum_ns_ = 0;
};

// Returns NAME="VALUE". Escapes a backslash, a quote and a line feed.
inline std::string label(const char *name, const std::string &value)
{
    std::string text = std::string(name) + "=\"";
    for (const char c : value)
        text += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    return text + '"';
}

class page
{
public:
    explicit page(const std::string &prefix) : prefix_(prefix) {}

    // Starts a metric family. The type is "counter", "gauge" or "histogram".
    void begin(const std::string &name, const char *type, const char *help)
    {
        name_ = prefix_ + name;
        text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
    }
    // Adds a sample to the current family. Labels are separated by commas.
    void add(const std::string &labels, std::uint64_t value) { add("", labels, std::to_string(value)); }
    void add(const std::string &labels, const histogram &of)
    {
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < histogram::bounds_ns.size(); ++i) {
            total += of.count(i);
            add("_bucket", labels + ",le=\"" + seconds(histogram::bounds_ns[i]) + '"', std::to_string(total));
        }
        total += of.count(histogram::bounds_ns.size());
        add("_bucket", labels + ",le=\"+Inf\"", std::to_string(total));
        add("_sum", labels, seconds(of.sum_ns()));
        add("_count", labels, std::to_string(total));
    }
    const std::string &text() const { return text_; }

private:
    static std::string seconds(std::uint64_t ns)
    {
        char text[32];
        std::snprintf(text, sizeof(text), "%.10g", static_cast<double>(ns) / 1e9);
        return text;
    }
    void add(const char *suffix, const std::string &labels, const std::string &value)
    {
        text_ += name_ + suffix + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
    }

    const std::string prefix_;
    std::string name_;
    std::string text_;
};

} // namespace prometheus

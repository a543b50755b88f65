// SPDX-License-Identifier: BSD-3-Clause
#include "import_rows.hpp"

#include <algorithm>
#include <charconv>
#include <csv.h>
#include <nlohmann/json.hpp>

namespace bench::old_framework
{

namespace
{

using json = nlohmann::json;

constexpr const char *known_words[] = {"apm", "gpspm", "ib", "read", "randread", "write", "randwrite", "rw", "randrw",
        "pmem", "dram", "malloc", "blocking", "busy"};

// A field of a row. The framework wrote numbers; its CSV files hold texts.
std::optional<double> number(const json &row, const char *name, const std::string &place)
{
    const auto found = row.find(name);
    if (found == row.end() || found->is_null())
        return std::nullopt;
    double value = -1;
    if (found->is_number()) {
        value = found->get<double>();
    } else if (found->is_string()) {
        const std::string text = found->get<std::string>();
        if (text.empty() || text == "-")
            return std::nullopt;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || end != text.data() + text.size())
            value = -1;
    }
    constexpr double largest = 1e18; // whole numbers are made of some
    if (!(value >= 0 && value <= largest))
        throw results_error(place + ": \"" + name + "\" is not a number from 0 up to 1e18");
    return value;
}

std::uint32_t count(const json &row, const char *name, std::uint32_t otherwise, const std::string &place)
{
    const double value = number(row, name, place).value_or(otherwise);
    if (value > 1e9)
        throw results_error(place + ": \"" + name + "\" is not a count");
    return static_cast<std::uint32_t>(value);
}

std::optional<double> scaled(std::optional<double> value, double factor)
{
    return value ? std::optional(*value * factor) : std::nullopt;
}

measure measure_of(const json &row, const std::string &place)
{
    constexpr double usec = 1000, gigabit = 1e9 / 8;
    measure m;
    m.operations = static_cast<std::uint64_t>(number(row, "ops", place).value_or(0));
    m.ops_per_s = number(row, "iops_avg", place);
    m.bytes_per_s = scaled(number(row, "bw_avg", place), gigabit);
    m.latency.min_ns = scaled(number(row, "lat_min", place), usec);
    m.latency.mean_ns = scaled(number(row, "lat_avg", place), usec);
    m.latency.max_ns = scaled(number(row, "lat_max", place), usec);
    m.latency.stddev_ns = scaled(number(row, "lat_stdev", place), usec);
    const std::pair<const char *, double> ranks[] = {
            {"lat_pctl_99.0", 99}, {"lat_pctl_99.9", 99.9}, {"lat_pctl_99.99", 99.99}, {"lat_pctl_99.999", 99.999}};
    for (const auto &[name, rank] : ranks) {
        if (const auto value = scaled(number(row, name, place), usec))
            m.latency.percentiles.push_back({rank, *value});
    }
    return m;
}

std::optional<double> sum(std::optional<double> a, std::optional<double> b)
{
    return a && b ? std::optional(*a + *b) : std::nullopt;
}

// Percentiles of two halves do not add up to those of the whole: only what does is told of it.
measure together(const measure &reads, const measure &writes)
{
    measure all;
    all.operations = reads.operations + writes.operations;
    all.ops_per_s = sum(reads.ops_per_s, writes.ops_per_s);
    all.bytes_per_s = sum(reads.bytes_per_s, writes.bytes_per_s);
    const auto &r = reads.latency, &w = writes.latency;
    if (r.mean_ns && w.mean_ns && all.operations > 0) {
        const double share = static_cast<double>(reads.operations) / static_cast<double>(all.operations);
        all.latency.mean_ns = share * *r.mean_ns + (1 - share) * *w.mean_ns;
    }
    return all;
}

setup setup_of(const json &row, const row_meaning &meaning, const std::string &place)
{
    const auto size = number(row, "bs", place);
    if (!size)
        throw results_error(place + ": \"bs\" is missing");
    setup s;
    const bool mix = meaning.reads && meaning.writes;
    s.workload = mix ? "mix" : meaning.reads ? "read" : meaning.gpspm ? "gpspm" : "write_flush";
    s.api = meaning.verbs ? api::verbs : api::librpma;
    parameters &p = s.parameters;
    p.block_size = static_cast<std::uint64_t>(*size);
    p.depth = count(row, "iodepth", 1, place);
    p.threads = count(row, "threads", 1, place);
    p.connections = p.threads; // each thread has its own
    p.cpu_load = count(row, "cpuload", 0, place);
    if (meaning.writes)
        p.flush = meaning.direct_write || meaning.gpspm ? flush_kind::persistent : flush_kind::visibility;
    p.polling = meaning.blocking ? polling::event : polling::busy;
    p.access = meaning.random ? access::random : access::sequential;
    if (mix)
        p.read_percent = 70;
    p.target = meaning.to_pmem ? "pmem" : "dram";
    return s;
}

point point_of(const json &row, const row_meaning &meaning, const std::string &place)
{
    point p;
    repeat &only = p.repeats.emplace_back();
    if (row.is_array() && row.size() == 2 && row[0].is_object() && row[1].is_object()) {
        p.setup = setup_of(row[0], meaning, place);
        only.reads = measure_of(row[0], place + "[0]");
        only.writes = measure_of(row[1], place + "[1]");
        only.all = together(*only.reads, *only.writes);
    } else if (row.is_object()) {
        p.setup = setup_of(row, meaning, place);
        only.all = measure_of(row, place);
    } else {
        throw results_error(place + ": is neither a row nor a pair of rows");
    }
    return p;
}

struct csv_rows {
    std::vector<std::string> head, fields;
    json rows = json::array();
    std::size_t wrong_line = 0;

    void end_of_row()
    {
        if (head.empty()) {
            head = std::move(fields);
        } else if (fields.size() == head.size()) {
            json row = json::object();
            for (std::size_t i = 0; i < head.size(); ++i)
                row[head[i]] = fields[i];
            rows.push_back(std::move(row));
        } else if (wrong_line == 0) {
            wrong_line = rows.size() + 2;
        }
        fields.clear();
    }
};

} // namespace

bool row_meaning::take_word(const std::string &word)
{
    if (std::ranges::find(known_words, word) == std::end(known_words) && word != "ib_read")
        return false;
    if (word == "ib_read" || word == "ib")
        verbs = true;
    gpspm = gpspm || word == "gpspm";
    to_pmem = to_pmem || word == "pmem";
    blocking = blocking || word == "blocking";
    random = random || word.starts_with("rand");
    const std::string direction = word.starts_with("rand") ? word.substr(4) : word;
    reads = reads || direction == "read" || direction == "rw";
    writes = writes || direction == "write" || direction == "rw";
    return true;
}

std::string row_meaning::all_words()
{
    std::string all;
    for (const char *word : known_words)
        all += (all.empty() ? "" : ", ") + std::string(word);
    return all;
}

json rows_of_csv(const std::string &text, const std::string &path)
{
    csv_rows made;
    csv_parser parser;
    csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
    const auto field = [](void *data, std::size_t size, void *rows) {
        static_cast<csv_rows *>(rows)->fields.emplace_back(static_cast<const char *>(data), size);
    };
    const auto end = [](int, void *rows) { static_cast<csv_rows *>(rows)->end_of_row(); };
    const bool parsed = csv_parse(&parser, text.data(), text.size(), field, end, &made) == text.size() &&
                        csv_fini(&parser, field, end, &made) == 0;
    csv_free(&parser);
    if (!parsed || std::ranges::find(made.head, "bs") == made.head.end())
        throw results_error(path + ": is not a result file of rpma-bench nor one with the old framework's rows");
    if (made.wrong_line != 0)
        throw results_error(path + ":" + std::to_string(made.wrong_line) + ": has not as many fields as the header");
    return std::move(made.rows);
}

std::vector<point> points_of_rows(const json &rows, const row_meaning &meaning, const std::string &path)
{
    if (!rows.is_array())
        throw results_error(path + ": is not a list of rows");
    std::vector<point> points;
    for (std::size_t i = 0; i < rows.size(); ++i)
        points.push_back(point_of(rows[i], meaning, path + ": [" + std::to_string(i) + "]"));
    return points;
}

} // namespace bench::old_framework

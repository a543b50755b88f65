// SPDX-License-Identifier: BSD-3-Clause
// The parts of a report say the same: headline, figures, their tables, the table of all points and the CSV file.
#include "report/chart.hpp"
#include "report/headline.hpp"
#include "report/metric.hpp"
#include "report/report.hpp"
#include "report/table.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <regex>
#include <set>
#include <utility>

extern "C" {
#include <cmocka.h>
}

using namespace bench;
using namespace bench::report;

namespace
{

using row = std::map<std::string, std::string>;

std::vector<std::string> pieces(const std::string &text, const std::string &separator)
{
    std::vector<std::string> found;
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + separator.size()) {
        end = text.find(separator, at);
        found.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    }
    return found;
}

std::vector<row> rows_of_csv(const std::vector<run> &runs)
{
    const std::vector<std::string> lines = pieces(csv(runs), "\r\n"), head = pieces(lines.at(0), ",");
    std::vector<row> rows;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const std::vector<std::string> fields = pieces(lines[i], ",");
        for (std::size_t k = 0; fields.size() == head.size() && k < head.size(); ++k)
            (k == 0 ? rows.emplace_back() : rows.back())[head[k]] = fields[k];
    }
    return rows;
}

measure measured(double p50_ns, std::uint64_t block_size)
{
    measure s;
    s.operations = 1000;
    s.ops_per_s = 1e9 / p50_ns;
    s.bytes_per_s = *s.ops_per_s * static_cast<double>(block_size);
    s.latency.mean_ns = p50_ns * 1.1;
    s.latency.percentiles = {{50, p50_ns}, {90, p50_ns * 1.4}, {99, p50_ns * 2}, {99.9, p50_ns * 3}};
    return s;
}

// No two points have a value in common, so that a value says whose it is. The repeats differ, and their median is
// neither the first nor the last.
results two_interfaces()
{
    results r;
    r.complete = true;
    double ns = 10000;
    for (const std::uint64_t size : {64u, 4096u, 65536u}) {
        for (const api which : {api::librpma, api::verbs}) {
            point p;
            p.setup.workload = "read";
            p.setup.api = which;
            p.setup.parameters.block_size = size;
            for (const double drift : {1.2, 0.7, 1.0}) {
                repeat one;
                one.duration_s = 1;
                one.verified = true;
                one.all = measured(ns * drift, size);
                p.repeats.push_back(one);
            }
            r.points.push_back(p);
            ns *= 1.37;
        }
    }
    return r;
}

results with_gaps_and_a_mix()
{
    results r = two_interfaces();
    for (const status outcome : {status::failed, status::skipped, status::skipped}) {
        point p = r.points.at(r.points.size() - 1);
        p.setup.parameters.connections *= 2;
        p.status = outcome;
        p.reason = "it has no other side";
        p.repeats.clear();
        r.points.push_back(p);
    }
    point mix = r.points.at(0);
    mix.setup.workload = "mix";
    mix.setup.parameters.read_percent = 70;
    for (repeat &one : mix.repeats)
        one.reads = one.writes = one.all;
    r.points.push_back(mix);
    return r;
}

std::vector<run> alone(results r)
{
    return {{"r", std::move(r)}};
}

void every_place_counts_the_same_points(void **)
{
    const std::vector<run> runs = alone(with_gaps_and_a_mix());
    const std::vector<entry> entries = entries_of(runs);
    const std::string facts = headline_of(runs, entries).facts;
    assert_true(facts.starts_with("10 points · 7 verified · 1 failed · 2 skipped"));

    const std::vector<row> rows = rows_of_csv(runs);
    std::map<std::string, std::ptrdiff_t> by_status;
    for (const row &one : rows)
        by_status[one.at("half").empty() ? one.at("status") : "half"] += 1;
    assert_true(by_status ==
                (std::map<std::string, std::ptrdiff_t>{{"done", 7}, {"failed", 1}, {"skipped", 2}, {"half", 2}}));
    assert_int_equal(missing(entries).rows.size(), by_status["failed"] + by_status["skipped"]);

    const table all = table_of(entries);
    assert_int_equal(all.rows.size(), rows.size());
    std::map<std::string, std::ptrdiff_t> verdicts;
    for (const auto &cells : all.rows)
        verdicts[cells.back().text] += 1;
    assert_int_equal(verdicts["yes"], 7 + by_status["half"]);
    assert_int_equal(verdicts["failed"], 1);
    assert_int_equal(verdicts["skipped"], 2);
}

const row *row_with(const std::vector<row> &rows, double size, const std::string &interface)
{
    const auto found = std::ranges::find_if(rows,
            [&](const row &r) { return r.at("block_size") == fmt::format("{:g}", size) && r.at("api") == interface; });
    return found == rows.end() ? nullptr : &*found;
}

std::string column_of(const axis &y, bool tail)
{
    const std::string latency = tail ? "latency_p99_ns" : "latency_p50_ns";
    return y.measured_in == unit::time_ns ? latency : "bytes_per_s";
}

void a_value_is_the_same_wherever_it_stands(void **)
{
    const std::vector<run> runs = alone(two_interfaces());
    const std::vector<row> rows = rows_of_csv(runs);
    const table all = table_of(entries_of(runs));
    const std::string page = html(runs, "t", figures_of(runs, {}));
    std::size_t compared = 0;
    for (const figure &f : figures_of(runs, {"latency", "bandwidth"})) {
        const auto &chart = std::get<line_chart>(f.chart);
        const table values = table_of(f);
        for (std::size_t i = 0; i < chart.lines.size(); ++i) {
            const series &line = chart.lines[i];
            for (std::size_t k = 0; k < line.data.size(); ++k, ++compared) {
                const row *const in_csv =
                        row_with(rows, line.data[k].x, line.label == "raw verbs" ? "verbs" : "librpma");
                assert_non_null(in_csv);
                const std::string &exact = in_csv->at(column_of(chart.y, line.tail));
                assert_string_equal(fmt::format("{:.10g}", line.data[k].y).c_str(), exact.c_str());
                const std::string shown = format(std::stod(exact), chart.y.measured_in);
                assert_string_equal(values.rows.at(k).at(i + 1).text.c_str(), shown.c_str());
                assert_non_null(strstr(draw(f, "f").c_str(), (": " + shown + " (").c_str()));
                assert_true(std::ranges::any_of(all.rows, [&](const auto &cells) {
                    return std::ranges::any_of(cells, [&](const cell &c) { return c.text == shown; });
                }));
            }
        }
    }
    assert_true(compared >= 24);
    // The tile of the median latency is the point of 4 KiB.
    const std::string median = format(std::stod(row_with(rows, 4096, "librpma")->at("latency_p50_ns")), unit::time_ns);
    assert_non_null(strstr(page.c_str(), ("<strong>" + median + "</strong>").c_str()));
}

using place = std::pair<std::string, std::string>;

std::multiset<place> places_in(const std::string &picture, const char *pattern)
{
    std::multiset<place> found;
    const std::regex expression(pattern), vertex(R"([ML]([\d.]+) ([\d.]+))");
    for (std::sregex_iterator at(picture.begin(), picture.end(), expression), end; at != end; ++at) {
        const std::string d = (*at)[1];
        for (std::sregex_iterator v(d.begin(), d.end(), vertex); v != end; ++v)
            found.emplace((*v)[1], (*v)[2]);
    }
    return found;
}

void markers_lie_on_their_lines(void **)
{
    const std::vector<run> runs = alone(two_interfaces());
    std::size_t seen = 0;
    for (const figure &f : figures_of(runs, {"latency", "percentiles"})) {
        const std::string picture = draw(f, "f");
        for (const char *const colour : {"c0", "c1"}) {
            const std::string line = fmt::format(R"re(<path class="{} line[^"]*" d="([^"]*)")re", colour);
            const std::string mark = fmt::format(R"re(<path class="{} mark" d="(M[\d.]+ [\d.]+)m)re", colour);
            const std::multiset<place> vertices = places_in(picture, line.c_str());
            assert_true(vertices == places_in(picture, mark.c_str()));
            seen += vertices.size();
        }
    }
    assert_true(seen >= 24);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(every_place_counts_the_same_points),
            cmocka_unit_test(a_value_is_the_same_wherever_it_stands),
            cmocka_unit_test(markers_lie_on_their_lines),
    };
    return cmocka_run_group_tests_name("agreement", tests, nullptr, nullptr);
}

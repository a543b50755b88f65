// SPDX-License-Identifier: BSD-3-Clause
#include "report/chart.hpp"
#include "report/entry.hpp"
#include "report/projection.hpp"
#include "report/report.hpp"
#include "units.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstring>

extern "C" {
#include <cmocka.h>
}

using namespace bench;
using namespace bench::report;

namespace
{

point measured(const char *workload, bench::api api, std::uint64_t block_size, double p50_ns)
{
    point p;
    p.setup.workload = workload;
    p.setup.api = api;
    p.setup.parameters.block_size = block_size;
    repeat r;
    r.duration_s = 1;
    r.all.operations = 1000;
    r.all.ops_per_s = 1e9 / p50_ns;
    r.all.bytes_per_s = *r.all.ops_per_s * static_cast<double>(block_size);
    r.all.latency.percentiles = {{50, p50_ns}, {99, p50_ns * 2}, {99.9, p50_ns * 3}};
    p.repeats = {r};
    return p;
}

results reads_over_two_interfaces()
{
    results r;
    r.complete = true;
    for (const std::uint64_t size : {64u, 4096u, 65536u}) {
        const double ns = 10000 + static_cast<double>(size);
        r.points.push_back(measured("read", api::verbs, size, ns));
        r.points.push_back(measured("read", api::librpma, size, ns * 1.5));
    }
    return r;
}

const figure *find(const std::vector<figure> &figures, const std::string &title)
{
    const auto found = std::ranges::find(figures, title, &figure::title);
    return found == figures.end() ? nullptr : &*found;
}

void numbers_have_three_digits_and_a_unit(void **)
{
    const struct {
        double value;
        unit u;
        const char *text;
    } cases[] = {
            {0, unit::time_ns, "0 ns"},
            {812, unit::time_ns, "812 ns"},
            {999.4, unit::time_ns, "999 ns"},
            {999.7, unit::time_ns, "1.00 µs"},
            {12345, unit::time_ns, "12.3 µs"},
            {2.5e9, unit::time_ns, "2.50 s"},
            {64, unit::bytes, "64 B"},
            {4096, unit::bytes, "4 KiB"},
            {1536, unit::bytes, "1.50 KiB"},
            {1 << 20, unit::bytes, "1 MiB"},
            {1.25e9, unit::bytes_per_s, "1.25 GB/s"},
            {35300, unit::per_s, "35.3 k/s"},
            {0.5, unit::per_s, "0.5 /s"},
            {1.0204, unit::ratio, "1.02"},
    };
    for (const auto &c : cases)
        assert_string_equal(format(c.value, c.u).c_str(), c.text);
    assert_string_equal(format_duration(59.4).c_str(), "59 s");
    assert_string_equal(format_duration(92).c_str(), "1 min 32 s");
    assert_string_equal(format_duration(7320).c_str(), "2 h 2 min");
    assert_string_equal(format_count(1, "point").c_str(), "1 point");
    assert_string_equal(format_count(1234567, "point").c_str(), "1,234,567 points");
}

void labels_of_ticks_never_touch(void **)
{
    for (const scale how : {scale::log2, scale::linear}) {
        std::vector<double> values;
        for (double value = 1; value <= 1 << 20; value *= how == scale::log2 ? 2 : 1.5)
            values.push_back(value);
        const projection x({"", unit::bytes, how}, values, 60, 440);
        double end = 0;
        for (const tick &t : x.ticks_across()) {
            if (t.label.empty())
                continue;
            const double half = 3 * static_cast<double>(t.label.size());
            assert_true(t.at - half >= end);
            end = t.at + half;
        }
    }
}

void a_logarithmic_axis_holds_its_values_between_round_ends(void **)
{
    const projection y({"", unit::time_ns, scale::log10}, {1300, 1e6}, 250, 30);
    const auto ticks = y.ticks_along();
    assert_string_equal(ticks.front().label.c_str(), "1 µs");
    assert_true(y(1300) < 250 && y(1e6) >= 30 && y(1300) > y(1e6));
    assert_false(can_show(scale::log10, 0));
}

void one_interface_beside_another_is_one_figure(void **)
{
    const std::vector<run> runs = {{"r", reads_over_two_interfaces()}};
    const auto figures = figures_of(runs, {});
    const figure *f = find(figures, "Latency side by side");
    assert_non_null(f);
    const line_chart &chart = std::get<line_chart>(f->chart);
    assert_int_equal(chart.lines.size(), 4); // each with its 99th percentile
    assert_string_equal(chart.lines[0].label.c_str(), "librpma");
    assert_string_equal(chart.lines[2].label.c_str(), "raw verbs");
    assert_true(chart.lines[1].tail && chart.lines[1].colour == chart.lines[0].colour);
    assert_non_null(strstr(draw(*f, "f").c_str(), "block size, log scale"));
    assert_null(find(figures, "Latency to DRAM and to PMem"));
}

void the_cost_beside_verbs_is_a_ratio(void **)
{
    const std::vector<run> runs = {{"r", reads_over_two_interfaces()}};
    const auto figures = figures_of(runs, {"interfaces"});
    const figure *f = find(figures, "What the library costs beside raw verbs");
    assert_non_null(f);
    const ratio_chart &chart = std::get<ratio_chart>(f->chart);
    assert_int_equal(chart.rows.size(), 3);
    for (const ratio_row &row : chart.rows)
        assert_true(row.ratio > 1.499 && row.ratio < 1.501);
    assert_string_equal(chart.rows[1].label.c_str(), "read, 4 KiB");
}

results compared(double ratio, double low, double high)
{
    results r;
    r.complete = true;
    bench::pair p;
    p.ours = measured("read", api::librpma, 4096, 1).setup;
    p.other = measured("read", api::verbs, 4096, 1).setup;
    p.metric = "latency_p50";
    p.ours_value = 116000;
    p.other_value = 120000;
    p.ratio = ratio;
    p.ratio_low = low;
    p.ratio_high = high;
    p.runs = 15;
    r.pairs = {p};
    return r;
}

void an_interval_that_contains_one_is_no_difference(void **)
{
    const std::vector<run> even = {{"r", compared(1.2, 0.97, 1.4)}}, worse = {{"r", compared(1.2, 1.1, 1.4)}};
    const figure drawn = figures_of(even, {"compare"}).at(0);
    const std::string picture = draw(drawn, "f");
    assert_non_null(strstr(picture.c_str(), "point even"));
    assert_non_null(strstr(picture.c_str(), "1.20 (0.97 to 1.40) no difference"));
    assert_null(strstr(picture.c_str(), "116 µs / "));
    assert_non_null(strstr(markdown(even, "t").c_str(), "| no difference |"));
    assert_non_null(strstr(draw(figures_of(worse, {"compare"}).at(0), "f").c_str(), "point worse"));
    // The tile says what the figure says.
    assert_null(strstr(html(worse, "t", {}).c_str(), "<strong>no difference"));
}

void a_busy_machine_allows_no_conclusion(void **)
{
    results r = compared(1.2, 1.1, 1.3);
    assert_true(why_no_conclusion(r).empty());
    r.environment.client.cores = 2;
    r.environment.client.load = 7.9;
    assert_non_null(strstr(why_no_conclusion(r).c_str(), "the load was 7.9 on 2 processors"));
    const std::vector<run> runs = {{"r", r}};
    assert_non_null(strstr(draw(figures_of(runs, {"compare"}).at(0), "f").c_str(), "point even"));
    assert_non_null(strstr(html(runs, "t", {}).c_str(), "<li class=\"even\"><strong>no conclusion"));
    assert_false(why_no_conclusion(compared(1.2, 0.9, 1.5)).empty());
    // Beside raw verbs the same holds.
    results beside = reads_over_two_interfaces();
    beside.environment = r.environment;
    const std::vector<run> busy = {{"r", beside}};
    const auto figures = figures_of(busy, {"interfaces"});
    const figure *f = find(figures, "What the library costs beside raw verbs");
    assert_non_null(strstr(draw(*f, "f").c_str(), "no conclusion"));
    assert_null(strstr(draw(*f, "f").c_str(), "point worse"));
}

void a_baseline_that_waits_in_another_way_has_its_bar(void **)
{
    results r = reads_over_two_interfaces();
    r.points.push_back(measured("read", api::tcp, 4096, 30000));
    r.points.back().setup.parameters.polling = polling::event;
    const std::vector<run> runs = {{"r", r}};
    const auto figures = figures_of(runs, {"interfaces"});
    const bar_chart &chart = std::get<bar_chart>(find(figures, "The same work over each interface")->chart);
    assert_int_equal(chart.groups.size(), 1);
    assert_int_equal(chart.groups.at(0).bars.size(), 3);
    assert_non_null(strstr(chart.groups.at(0).bars.at(2).label.c_str(), "plain TCP"));
}

void a_point_has_one_value_in_all_figures(void **)
{
    results r = reads_over_two_interfaces();
    for (point &p : r.points) {
        // A histogram's buckets are coarser than the percentiles that were taken from it.
        p.repeats.at(0).all.latency.histogram = {{p.repeats.at(0).all.latency.percentiles.at(0).ns * 1.1, 1000}};
    }
    const std::vector<run> runs = {{"r", r}};
    const auto figures = figures_of(runs, {});
    const auto &over_rank = std::get<line_chart>(find(figures, "Latency by percentile")->chart);
    const auto &over_size = std::get<line_chart>(find(figures, "Median latency of each operation")->chart);
    assert_true(over_rank.lines.at(0).data.at(0).y == over_size.lines.at(0).data.at(1).y);
}

void a_failed_point_is_marked(void **)
{
    results r = reads_over_two_interfaces();
    point failed = r.points.at(1);
    failed.setup.parameters.block_size = 1 << 20;
    failed.status = status::failed;
    failed.reason = "gone";
    failed.repeats.clear();
    r.points.push_back(failed);
    const std::vector<run> runs = {{"r", r}};
    const auto figures = figures_of(runs, {"latency"});
    const line_chart &chart = std::get<line_chart>(find(figures, "Median latency of each operation")->chart);
    assert_int_equal(chart.lines.at(0).failed.size(), 1);
    assert_non_null(strstr(draw(*find(figures, "Median latency of each operation"), "f").c_str(), "not measured"));
    assert_non_null(strstr(html(runs, "t", figures).c_str(), "<td>failed</td><td>gone</td>"));
    assert_non_null(strstr(markdown(runs, "t").c_str(), "| failed | gone |"));
}

void runs_of_two_files_are_lines_of_one_figure(void **)
{
    const std::vector<run> runs = {{"before", reads_over_two_interfaces()}, {"after", reads_over_two_interfaces()}};
    const auto figures = figures_of(runs, {"latency"});
    const line_chart &chart = std::get<line_chart>(find(figures, "Median latency of each operation")->chart);
    assert_int_equal(chart.lines.size(), 2);
    assert_string_equal(chart.lines[0].label.c_str(), "before");
    assert_string_equal(chart.lines[1].label.c_str(), "after");
}

void text_from_files_is_escaped(void **)
{
    results r = reads_over_two_interfaces();
    r.environment.device = "<script>alert(1)</script>";
    r.points.at(0).setup.workload = "a,\"b\"&<c>|";
    r.points.at(1).setup.workload = "a,\"b\"&<c>|";
    const std::vector<run> runs = {{"r", r}};
    const std::string page = html(runs, default_title(runs), figures_of(runs, {}));
    assert_null(strstr(page.c_str(), "<script>alert"));
    assert_null(strstr(page.c_str(), "&<c>"));
    assert_non_null(strstr(csv(runs).c_str(), ",\"a,\"\"b\"\"&<c>|\","));
    assert_non_null(strstr(markdown(runs, "t").c_str(), "\\<c>\\|"));
}

void a_csv_row_has_as_many_fields_as_the_header(void **)
{
    const std::vector<run> runs = {{"r", reads_over_two_interfaces()}};
    const std::string text = csv(runs);
    std::ptrdiff_t commas = -1;
    std::size_t lines = 0;
    for (std::size_t at = 0; at < text.size(); ++lines) {
        const std::size_t end = text.find("\r\n", at);
        const std::string line = text.substr(at, end - at);
        const auto count = std::ranges::count(line, ',');
        assert_true(commas == -1 || count == commas);
        commas = count;
        at = end + 2;
    }
    assert_int_equal(lines, 7);
}

void results_without_points_make_a_report(void **)
{
    const std::vector<run> runs = {{"r", results{}}};
    assert_true(figures_of(runs, {}).empty());
    assert_non_null(strstr(html(runs, "t", {}).c_str(), "incomplete"));
    assert_non_null(strstr(markdown(runs, "t").c_str(), "# t"));
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(numbers_have_three_digits_and_a_unit),
            cmocka_unit_test(labels_of_ticks_never_touch),
            cmocka_unit_test(a_logarithmic_axis_holds_its_values_between_round_ends),
            cmocka_unit_test(one_interface_beside_another_is_one_figure),
            cmocka_unit_test(the_cost_beside_verbs_is_a_ratio),
            cmocka_unit_test(an_interval_that_contains_one_is_no_difference),
            cmocka_unit_test(a_busy_machine_allows_no_conclusion),
            cmocka_unit_test(a_baseline_that_waits_in_another_way_has_its_bar),
            cmocka_unit_test(a_point_has_one_value_in_all_figures),
            cmocka_unit_test(a_failed_point_is_marked),
            cmocka_unit_test(runs_of_two_files_are_lines_of_one_figure),
            cmocka_unit_test(text_from_files_is_escaped),
            cmocka_unit_test(a_csv_row_has_as_many_fields_as_the_header),
            cmocka_unit_test(results_without_points_make_a_report),
    };
    return cmocka_run_group_tests_name("figures", tests, nullptr, nullptr);
}

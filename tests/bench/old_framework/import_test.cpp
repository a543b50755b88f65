// SPDX-License-Identifier: BSD-3-Clause
#include "old_framework/import.hpp"
#include "report/report.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

extern "C" {
#include <cmocka.h>
}

using namespace bench;
using namespace bench::report;
using bench::old_framework::load_any;

namespace
{

const std::string old = OLD_FRAMEWORK;
const std::string csv_file = old + "rpma_fio_apm_busy-wait-polling_write_lat_node1_pmem-21-06-01-120000.csv";

bool near(std::optional<double> value, double wanted)
{
    return value && std::abs(*value - wanted) < wanted * 1e-9;
}

const point &one(const results &r, const std::string &workload, bench::api api, std::uint64_t block_size)
{
    const auto found = std::ranges::find_if(r.points, [&](const point &p) {
        return p.setup.workload == workload && p.setup.api == api && p.setup.parameters.block_size == block_size;
    });
    assert_true(found != r.points.end());
    return *found;
}

std::string error_of(const std::string &path, const std::string &rows_are = "")
{
    try {
        (void)load_any(path, rows_are);
    } catch (const results_error &error) {
        return error.what();
    }
    return "";
}

// A file in a directory of its own, both gone afterwards.
struct temporary {
    std::string directory, path;
    temporary(const std::string &name, const std::string &text)
    {
        directory = std::filesystem::temp_directory_path() / "bench_import.XXXXXX";
        assert_non_null(mkdtemp(directory.data()));
        path = directory + "/" + name;
        std::ofstream(path) << text;
    }
    ~temporary() { std::filesystem::remove_all(directory); }
};

void a_bench_file_brings_its_rows_with_their_meaning(void **)
{
    const results r = load_any(old + "bench.json", "");
    assert_int_equal(r.points.size(), 3 + 3 + 2 + 2);
    assert_false(r.complete); // benchmark_3.json was never written

    const point &read = one(r, "read", api::librpma, 4096);
    const measure &m = read.repeats.at(0).all;
    assert_true(near(m.latency.mean_ns, 3500) && near(m.latency.min_ns, 2800));
    assert_true(near(m.bytes_per_s, 9.2e9 / 8) && near(m.ops_per_s, 280000));
    assert_int_equal(m.operations, 1500000);
    assert_int_equal(m.latency.percentiles.size(), 4);
    assert_true(m.latency.percentiles[2].rank == 99.99 && near(m.latency.percentiles[2].ns, 7700));
    assert_true(read.setup.parameters.target == "dram" && read.setup.parameters.flush == flush_kind::none);

    const point &verbs = one(r, "read", api::verbs, 256);
    assert_int_equal(verbs.repeats.at(0).all.latency.percentiles.size(), 2);
    assert_false(verbs.repeats.at(0).all.bytes_per_s.has_value());

    const point &gpspm = one(r, "gpspm", api::librpma, 4096);
    assert_true(gpspm.setup.parameters.polling == polling::event);
    assert_true(gpspm.setup.parameters.flush == flush_kind::persistent);
}

void a_pair_of_rows_becomes_the_halves_of_a_mix(void **)
{
    const results r = load_any(old + "bench.json", "");
    const point &mix = one(r, "mix", api::librpma, 4096);
    assert_true(mix.setup.parameters.read_percent == 70 && mix.setup.parameters.access == access::random);
    assert_int_equal(mix.setup.parameters.depth, 2);
    const repeat &only = mix.repeats.at(0);
    assert_true(only.reads && near(only.reads->latency.mean_ns, 4000));
    assert_true(only.writes && near(only.writes->latency.mean_ns, 8000));
    assert_true(near(only.all.ops_per_s, 285000) && near(only.all.latency.mean_ns, 6000));
}

void old_rows_appear_in_the_figures(void **)
{
    const std::vector<run> runs = {{"old", load_any(old + "bench.json", "")}};
    const std::vector<figure> figures = figures_of(runs, {"latency"});
    const auto found = std::ranges::find(figures, "Latency side by side", &figure::title);
    assert_true(found != figures.end());
    const line_chart &chart = std::get<line_chart>(found->chart);
    assert_string_equal(chart.lines.at(0).label.c_str(), "librpma");
    assert_int_equal(chart.lines.at(0).data.size(), 3);
    assert_false(figures_of(runs, {"cpuload"}).empty());
    assert_false(figures_of(runs, {"mix"}).empty());
}

void the_password_stays_behind(void **)
{
    const results r = load_any(old + "bench.json", "");
    assert_true(format_results(r).find("hunter2") == std::string::npos);
    assert_true(format_results(r).find("192.0.2.1") == std::string::npos);
}

void the_name_of_a_csv_file_says_what_it_holds(void **)
{
    const results r = load_any(csv_file, "");
    assert_int_equal(r.points.size(), 2);
    const point &write = one(r, "write_flush", api::librpma, 4096);
    assert_true(write.setup.parameters.flush == flush_kind::persistent);
    assert_true(write.setup.parameters.target == "pmem");
    assert_true(near(write.repeats.at(0).all.latency.mean_ns, 4600));
}

void rows_are_overrides_the_name(void **)
{
    const results r = load_any(old + "benchmark_0.json", "ib,randread");
    assert_true(r.points.at(0).setup.api == api::verbs && r.points.at(0).setup.parameters.access == access::random);
    assert_string_equal(error_of(old + "benchmark_0.json", "apm,fly").c_str(),
            "--rows-are: \"fly\" is none of apm, gpspm, ib, read, randread, write, randwrite, rw, randrw, pmem, dram, "
            "malloc, blocking, busy");
}

void what_cannot_be_read_is_named(void **)
{
    const std::string bare = old + "benchmark_0.json";
    assert_string_equal(error_of(bare).c_str(),
            (bare + ": its rows do not say what they measured: name it with --rows-are, for example "
                    "--rows-are apm,write,pmem")
                    .c_str());
    const struct {
        const char *name, *text, *error;
    } cases[] = {
            {"read.json", "[{\"lat_avg\": 1}]", ": [0]: \"bs\" is missing"},
            {"read.json", "[{\"bs\": 64, \"lat_avg\": \"fast\"}]",
                    ": [0]: \"lat_avg\" is not a number from 0 up to 1e18"},
            {"read.json", "[{\"bs\": 64, \"lat_avg\": -1}]", ": [0]: \"lat_avg\" is not a number from 0 up to 1e18"},
            {"read.json", "[{\"bs\": 1e300}]", ": [0]: \"bs\" is not a number from 0 up to 1e18"},
            {"read.json", "[{\"bs\": 64}, 3]", ": [1]: is neither a row nor a pair of rows"},
            {"read.json", "[{\"bs\": 64}", ": is neither JSON nor CSV, or was cut short"},
            {"read.json", "[]", ": holds no rows"},
            {"read.csv", "threads,bs\n1,64\n1\n", ":3: has not as many fields as the header"},
            {"read.csv", "a,b\n1,2\n", ": is not a result file of rpma-bench nor one with the old framework's rows"},
            {"read.csv", "bs,x\n\"64,1\n",
                    ": is not a result file of rpma-bench nor one with the old framework's rows"},
            {"bench.json", "{\"requirements\": {\"0\": 7}}", ": requirements.0: is not an object"},
            {"bench.json", "{\"requirements\": {\"0\": {\"benchmarks\": {\"5\": {\"tool\": \"fio\"}}}}}",
                    ": requirements.0.benchmarks.5: \"rw\" does not say what was measured"},
            {"bench.json", "{\"requirements\": {}}", ": no benchmark_<id>.json with rows lies beside it"},
            {"r.json", "{\"requirements\"", ":1: ends in the middle: the file was cut short"},
            {"r.json", "", ":1: ends in the middle: the file was cut short"},
    };
    for (const auto &c : cases) {
        const temporary file(c.name, c.text);
        assert_string_equal(error_of(file.path).c_str(), (file.path + c.error).c_str());
    }
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(a_bench_file_brings_its_rows_with_their_meaning),
            cmocka_unit_test(a_pair_of_rows_becomes_the_halves_of_a_mix),
            cmocka_unit_test(old_rows_appear_in_the_figures),
            cmocka_unit_test(the_password_stays_behind),
            cmocka_unit_test(the_name_of_a_csv_file_says_what_it_holds),
            cmocka_unit_test(rows_are_overrides_the_name),
            cmocka_unit_test(what_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests_name("import", tests, nullptr, nullptr);
}

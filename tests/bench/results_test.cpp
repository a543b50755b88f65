// SPDX-License-Identifier: BSD-3-Clause
#include "results.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <csignal>

extern "C" {
#include <cmocka.h>
}

using namespace bench;

namespace
{

results full_results()
{
    results r;
    r.profile = "quick";
    r.complete = true;
    r.started = "2026-01-31T12:00:00Z";
    r.duration_s = 61.5;
    r.environment.client = {"A CPU", 8, 16ull << 30, "Debian 12", "6.1.0", "performance", 0.25};
    r.environment.server.cpu = "Another CPU";
    r.environment.device = "softrdma0";
    r.environment.notes = {"Both ends share two cores."};
    r.libraries = {{"ours", "/usr/lib/librpma.so.0", "1.4.0"}};
    point p;
    p.setup.workload = "mix";
    p.setup.api = api::verbs;
    p.setup.parameters.block_size = 4096;
    p.setup.parameters.flush = flush_kind::persistent;
    p.setup.parameters.polling = polling::event;
    p.setup.parameters.access = access::random;
    p.setup.parameters.read_percent = 70;
    repeat one;
    one.duration_s = 2;
    one.all.operations = 1000;
    one.all.ops_per_s = 500.5;
    one.all.latency.mean_ns = 1234.5;
    one.all.latency.percentiles = {{50, 1000}, {99.9, 5000}};
    one.all.latency.histogram = {{1000, 600}, {5000, 400}};
    one.reads = measure{};
    one.reads->operations = 700;
    one.cpu_s.server = 0.5;
    one.verified = true;
    p.repeats = {one, one};
    r.points = {p};
    r.points.push_back({p.setup, status::failed, "the server went away", {}});
    r.pairs = {{p.setup, p.setup, "latency_p50", 1000, 2000, 0.5, 0.4, 0.6, 9}};
    return r;
}

std::string error_of(const std::string &text)
{
    try {
        (void)parse_results(text, "r.json");
    } catch (const results_error &error) {
        return error.what();
    }
    return "";
}

std::string replaced(std::string text, const std::string &from, const std::string &to)
{
    const std::size_t at = text.find(from);
    assert_true(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

// A directory that goes with its contents.
struct scratch {
    std::string path;
    scratch()
    {
        std::string name = std::filesystem::temp_directory_path() / "bench_results.XXXXXX";
        assert_non_null(mkdtemp(name.data()));
        path = name;
    }
    ~scratch() { std::filesystem::remove_all(path); }
};

void results_survive_the_file(void **)
{
    const results r = full_results();
    const results back = parse_results(format_results(r), "r.json");
    assert_string_equal(format_results(back).c_str(), format_results(r).c_str());

    assert_true(back.complete);
    assert_true(back.points.at(0).setup == r.points.at(0).setup);
    assert_true(back.points.at(1).status == status::failed);
    assert_string_equal(back.points.at(1).reason.c_str(), "the server went away");
    const repeat &one = back.points.at(0).repeats.at(1);
    assert_true(one.all.operations == 1000 && one.all.ops_per_s == 500.5 && !one.all.bytes_per_s);
    assert_true(one.all.latency.percentiles.at(1).rank == 99.9 && one.all.latency.histogram.at(1).count == 400);
    assert_true(one.reads && one.reads->operations == 700 && !one.writes);
    assert_true(one.cpu_s.server == 0.5 && !one.cpu_s.client && one.verified == true);
    assert_true(back.pairs.at(0).ratio == 0.5 && back.pairs.at(0).runs == 9);
    assert_true(back.environment.client.memory_bytes == 16ull << 30);
}

void members_of_later_writers_are_ignored(void **)
{
    const std::string text = replaced(format_results(full_results()), "\"profile\"", "\"colour\":[1],\"profile\"");
    assert_string_equal(error_of(text).c_str(), "");
}

void each_fault_is_named_with_its_place(void **)
{
    const std::string good = format_results(full_results());
    const struct {
        std::string from, to, error;
    } cases[] = {
            {"\"version\":1", "\"version\":2", "r.json: is of version 2, and this rpma-bench reads 1"},
            {"\"version\":1,", "", "r.json: is of version none, and this rpma-bench reads 1"},
            {"rpma-bench-results", "other",
                    "r.json: is not a result file of rpma-bench: \"format\" is not \"rpma-bench-results\""},
            {"\"profile\":\"quick\"", "\"profile\":7", "r.json: results.profile: is not a text"},
            {"\"profile\":\"quick\",", "", "r.json: results: \"profile\" is missing"},
            {"\"complete\":true", "\"complete\":1", "r.json: results.complete: is not true or false"},
            {"\"depth\":1", "\"depth\":-1",
                    "r.json: results.points[0].parameters.depth: is not a whole number in range"},
            {"\"depth\":1", "\"depth\":4294967296",
                    "r.json: results.points[0].parameters.depth: is not a whole number in range"},
            {"\"api\":\"verbs\"", "\"api\":\"smtp\"",
                    "r.json: results.points[0].api: is not one of librpma, verbs, tcp, memcpy"},
            {"\"duration_s\":2.0", "\"duration_s\":-2.0",
                    "r.json: results.points[0].repeats[0].duration_s: is not a number from 0 up"},
            {"[50.0,1000.0]", "[50.0]",
                    "r.json: results.points[0].repeats[0].latency_ns.percentiles[0]: is not a pair of numbers"},
            {"[50.0,1000.0]", "[100.5,1000.0]",
                    "r.json: results.points[0].repeats[0].latency_ns.percentiles[0]: is not a percentile: its rank is "
                    "above 100"},
            {"[50.0,1000.0]", "[99.95,1000.0]", "r.json: points[0]: percentiles and histogram must ascend"},
            {"\"environment\":{", "\"environment\":3,\"x\":{", "r.json: results.environment: is not an object"},
            {"\"pairs\":[", "\"pairs\":{},\"x\":[", "r.json: results.pairs: is not a list"},
    };
    for (const auto &c : cases)
        assert_string_equal(error_of(replaced(good, c.from, c.to)).c_str(), c.error.c_str());
}

void a_file_cut_anywhere_is_refused_as_cut(void **)
{
    const std::string good = format_results(full_results());
    const std::size_t end = good.find_last_of('}');
    for (std::size_t length = 0; length <= end; ++length) {
        const std::string error = error_of(good.substr(0, length));
        if (error != "r.json:1: ends in the middle: the file was cut short")
            fail_msg("cut to %zu: %s", length, error.c_str());
    }
    assert_string_equal(error_of("format: x\n").c_str(), "r.json:1: is not JSON");
}

void a_missing_file_is_named_with_the_cause(void **)
{
    try {
        (void)load_results("/nonexistent/r.json");
        fail_msg("loaded");
    } catch (const results_error &error) {
        assert_string_equal(error.what(), "/nonexistent/r.json: cannot open: No such file or directory");
    }
}

void a_failed_save_leaves_the_old_file(void **)
{
    const scratch directory;
    const std::string path = directory.path + "/r.json";
    results r = full_results();
    save_results(path, r);

    // No file may grow beyond a few bytes: what a full disk does, without privileges.
    struct rlimit old = {};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {64, old.rlim_max};
    (void)std::signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    r.profile = "full";
    std::string failure;
    try {
        save_results(path, r);
    } catch (const results_error &error) {
        failure = error.what();
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

    assert_string_equal(failure.c_str(), (path + ": cannot write: File too large").c_str());
    assert_string_equal(load_results(path).profile.c_str(), "quick");
    for (const auto &entry : std::filesystem::directory_iterator(directory.path))
        assert_string_equal(entry.path().filename().c_str(), "r.json");
}

void a_save_keeps_the_mode_of_the_old_file(void **)
{
    const scratch directory;
    const std::string path = directory.path + "/r.json";
    save_results(path, full_results());
    std::filesystem::permissions(path, std::filesystem::perms(0640));
    save_results(path, full_results());
    assert_int_equal(std::filesystem::status(path).permissions(), 0640);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(results_survive_the_file),
            cmocka_unit_test(members_of_later_writers_are_ignored),
            cmocka_unit_test(each_fault_is_named_with_its_place),
            cmocka_unit_test(a_file_cut_anywhere_is_refused_as_cut),
            cmocka_unit_test(a_missing_file_is_named_with_the_cause),
            cmocka_unit_test(a_failed_save_leaves_the_old_file),
            cmocka_unit_test(a_save_keeps_the_mode_of_the_old_file),
    };
    return cmocka_run_group_tests_name("results", tests, nullptr, nullptr);
}

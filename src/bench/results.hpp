// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

// What a measurement leaves behind: the results in memory and as a JSON file. An absent optional is "not measured" or
// "not known", never zero. Times carry their unit in the name; rates are per second.
namespace bench
{

// What the timed loop calls.
enum class api {
    librpma,
    verbs,
    tcp,
    memcpy
};

enum class flush_kind {
    none,
    visibility,
    persistent
};

enum class polling {
    busy,
    event
};

enum class access {
    sequential,
    random
};

enum class status {
    done,
    failed,
    skipped
};

struct parameters {
    std::uint64_t block_size = 0; // bytes
    std::uint32_t depth = 1;      // operations in flight on a connection
    std::uint32_t connections = 1;
    std::uint32_t threads = 1; // of the client
    flush_kind flush = flush_kind::none;
    std::uint32_t flush_interval = 1; // operations between two flushes
    bench::polling polling = bench::polling::busy;
    bench::access access = bench::access::sequential;
    std::optional<std::uint32_t> read_percent; // of a mix
    std::uint32_t cpu_load = 0;                // percent of the target's cores kept busy
    std::string target = "dram";               // the target's memory: dram, pmem, file ...

    bool operator==(const parameters &) const = default;
};

// What a point measures. Two points with the same setup are measurements of one thing.
struct setup {
    std::string workload; // read, write_flush, gpspm, aof, send_recv, write_with_imm, atomic_write, log_append, mix,
                          // connect, rpmem_persist, rpmem_flush_drain
    bench::api api = bench::api::librpma;
    std::string library; // the label of an entry of results::libraries; empty when the api is not librpma
    bench::parameters parameters;

    bool operator==(const setup &) const = default;
};

struct percentile {
    double rank = 0; // 99.9
    double ns = 0;
};

struct bucket {
    double ns = 0; // the highest latency that falls into it
    std::uint64_t count = 0;
};

struct latency {
    std::optional<double> min_ns, mean_ns, max_ns, stddev_ns;
    std::vector<percentile> percentiles; // ascending ranks
    std::vector<bucket> histogram;       // ascending, empty buckets left out
};

struct measure {
    std::uint64_t operations = 0;
    std::optional<double> ops_per_s;
    std::optional<double> bytes_per_s;
    bench::latency latency;
};

// One value for each end.
struct both_ends {
    std::optional<double> client, server;
};

struct repeat {
    std::optional<double> duration_s;
    measure all;
    std::optional<measure> reads, writes; // the halves of a mix
    both_ends cpu_s;
    both_ends memory_per_connection_bytes;
    std::optional<bool> verified; // the data was compared after the run
};

struct point {
    bench::setup setup;
    bench::status status = status::done;
    std::string reason; // why it failed or was skipped
    std::vector<bench::repeat> repeats;
};

// A comparison of two measurements taken in turns.
struct pair {
    bench::setup ours, other;
    std::string metric;                     // latency_p50, latency_mean, ops_per_s, bytes_per_s, connect_per_s ...
    double ours_value = 0, other_value = 0; // medians
    double ratio = 0;                       // ours divided by other: the median of the runs' ratios
    double ratio_low = 0, ratio_high = 0;   // quartiles of the runs' ratios
    std::uint32_t runs = 0;
};

struct host {
    std::string cpu;
    std::optional<std::uint32_t> cores;
    std::optional<std::uint64_t> memory_bytes;
    std::string os, kernel, governor;
    std::optional<double> load; // one-minute average at the start
};

struct library {
    std::string label; // ours, debian ...
    std::string file;  // what was really mapped
    std::string version;
};

struct environment {
    host client, server;
    bool same_host = false;
    std::string device, transport;
    std::string persistence_level; // what a persistent flush guarantees on the target's memory
    std::string target_memory;
    std::string rdma_core, tool;
    std::vector<std::string> notes; // what a reader must know, one sentence each
};

struct results {
    std::string profile;
    bool complete = false; // every planned point is done
    std::string started;   // UTC, 2026-01-31T12:00:00Z
    double duration_s = 0;
    bench::environment environment;
    std::vector<library> libraries; // the first one is "ours"
    std::vector<point> points;
    std::vector<pair> pairs;
};

// Its text is one line which names the file and the place in it.
struct results_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throws results_error when the file cannot be read, is cut short, is of an unknown version or has a wrong value.
// Unknown members are ignored.
results load_results(const std::string &path);
// The same from text; name stands for the file in errors.
results parse_results(const std::string &text, const std::string &name);
std::string format_results(const results &r);
// Replaces the file at once or not at all, and is on the disk when it returns. Throws results_error.
void save_results(const std::string &path, const results &r);

// "librpma", "verbs" ...: the words of the file and of the command line.
const char *to_word(api value);
const char *to_word(flush_kind value);
const char *to_word(polling value);
const char *to_word(access value);
const char *to_word(status value);
// Empty when the word is unknown.
template<class E>
std::optional<E> from_word(const std::string &word);

} // namespace bench

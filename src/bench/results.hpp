// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

// Parameters and results of a measurement. An empty optional means not measured or unknown; zero is a measured value.
namespace bench
{

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

struct parameters {
    std::uint64_t block_size = 0; // bytes
    std::uint32_t depth = 1;      // operations in flight on a connection
    std::uint32_t connections = 1;
    std::uint32_t threads = 1;
    flush_kind flush = flush_kind::none;
    std::uint32_t flush_interval = 1; // operations between two flushes
    bench::polling polling = bench::polling::busy;
    bench::access access = bench::access::sequential;
    std::optional<std::uint32_t> read_percent;
    std::uint32_t cpu_load = 0;  // percent of the target's cores kept busy
    std::string target = "dram"; // the target's memory: dram, pmem, file ...

    bool operator==(const parameters &) const = default;
};

struct setup {
    std::string workload; // read, write_flush, gpspm, aof, send_recv, write_with_imm, atomic_write, log_append, mix,
                          // connect, rpmem_persist, rpmem_flush_drain
    bench::api api = bench::api::librpma;
    std::string library; // label of an entry of results::libraries; empty unless the api is librpma
    bench::parameters parameters;

    bool operator==(const setup &) const = default;
};

struct percentile {
    double rank = 0;
    double ns = 0;
};

struct bucket {
    double ns = 0; // upper limit of the bucket
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

struct both_ends {
    std::optional<double> client, server;
};

struct repeat {
    std::optional<double> duration_s;
    measure all;
    std::optional<measure> reads, writes; // the halves of a mix
    both_ends cpu_s;
    both_ends memory_per_connection_bytes;
    std::optional<bool> verified;
};

struct host {
    std::string cpu;
    std::optional<std::uint32_t> cores;
    std::optional<std::uint64_t> memory_bytes;
    std::string os, kernel, governor;
    std::optional<double> load; // one-minute average at the start
};

struct library {
    std::string file;
    std::string version;
};

// A member that was not measured is null.
void to_json(nlohmann::json &j, const measure &m);
void to_json(nlohmann::json &j, const repeat &r);
void to_json(nlohmann::json &j, const host &h);
void to_json(nlohmann::json &j, const library &l);
void from_json(const nlohmann::json &j, setup &s);

} // namespace bench

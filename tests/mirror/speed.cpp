// SPDX-License-Identifier: BSD-3-Clause
// Prints the durations of flushes of mirrored sets on this machine, as medians, and as multiples of the underlying
// operations in the same run. Not a test: docs/replication.md describes how to run it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <random>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <librpma.h>
#include <librpmem.h>

#include "fixture.hpp"
#include "loopback.hpp"

namespace
{

constexpr std::size_t small_size = 512, page = 4096, rounds = 1000, batches = 5;
constexpr std::size_t big_set = 64 << 20, huge_set = 1 << 30;

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start)
{
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

double percentile(std::vector<double> of, std::size_t percent)
{
    std::ranges::sort(of);
    return of[of.size() * percent / 100];
}

double median(const std::vector<double> &of)
{
    return percentile(of, 50);
}

#define must(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != 0) {                                                                                             \
            std::fprintf(stderr, "%s failed: %s%s\n", #call, rpma_mirror_error_message(), rpmem_errormsg());           \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

// Calls that are measured in turn, so that other load on the machine affects all of them.
struct measured {
    const char *what;
    void (*call)(std::size_t round);
    std::vector<double> us;
};

// A target that uses only librpma, in its own process.
struct plain_target {
    rpma_conn *conn;
    rpma_mr_remote *there;
    rpma_mr_local *here;
    rpma_cq *cq;
} plain;

rpma_peer *peer_at(rpma_util_ibv_context_type type)
{
    ibv_context *context = nullptr;
    rpma_peer *peer = nullptr;
    must(rpma_utils_get_ibv_context_by_kind("127.0.0.1", type, RPMA_DEVICE_SOFTRDMA, &context));
    must(rpma_peer_new(context, &peer));
    return peer;
}

[[noreturn]] void serve(const char *port, const std::string &file, int ready)
{
    const int fd = open(file.c_str(), O_RDWR | O_CREAT, 0600);
    must(ftruncate(fd, big_set));
    void *const memory = mmap(nullptr, big_set, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    rpma_peer *const peer = peer_at(RPMA_UTIL_IBV_CONTEXT_LOCAL);
    rpma_mr_local *mr = nullptr;
    must(rpma_mr_reg(peer, memory, big_set,
            RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr));
    std::byte descriptor[64];
    std::size_t size = 0;
    must(rpma_mr_get_descriptor_size(mr, &size));
    must(rpma_mr_get_descriptor(mr, descriptor));
    rpma_ep *ep = nullptr;
    must(rpma_ep_listen(peer, "127.0.0.1", port, &ep));
    must(write(ready, "x", 1) != 1);
    rpma_conn_req *request = nullptr;
    must(rpma_ep_next_conn_req(ep, nullptr, &request));
    rpma_conn *conn = nullptr;
    const rpma_conn_private_data data{descriptor, static_cast<std::uint8_t>(size)};
    must(rpma_conn_req_connect(&request, &data, &conn));
    rpma_conn_event event{};
    while (rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED) {
    }
    _exit(0);
}

void connect_plain(const std::string &directory, char *memory)
{
    const std::string port = std::to_string(free_port());
    int ready[2];
    must(pipe(ready));
    if (fork_child() == 0)
        serve(port.c_str(), directory + "/plain.file", ready[1]);
    char byte = 0;
    must(read(ready[0], &byte, 1) != 1);
    rpma_peer *const peer = peer_at(RPMA_UTIL_IBV_CONTEXT_REMOTE);
    must(rpma_mr_reg(peer, memory, big_set, RPMA_MR_USAGE_WRITE_SRC, &plain.here));
    rpma_conn_req *request = nullptr;
    must(rpma_conn_req_new(peer, "127.0.0.1", port.c_str(), nullptr, &request));
    must(rpma_conn_req_connect(&request, nullptr, &plain.conn));
    rpma_conn_event event{};
    must(rpma_conn_next_event(plain.conn, &event));
    must(event != RPMA_CONN_ESTABLISHED);
    rpma_conn_private_data data{};
    must(rpma_conn_get_private_data(plain.conn, &data));
    must(rpma_mr_remote_from_descriptor(data.ptr, data.len, &plain.there));
    must(rpma_conn_get_cq(plain.conn, &plain.cq));
    // Like targets of mirrors, it flushes with processor instructions.
    rpma_peer_cfg *target = nullptr;
    must(rpma_peer_cfg_new(&target));
    must(rpma_peer_cfg_set_direct_write_to_pmem(target, true));
    must(rpma_conn_apply_remote_peer_cfg(plain.conn, target));
    must(rpma_peer_cfg_delete(&target));
}

void write_and_flush(std::size_t offset, std::size_t bytes)
{
    must(rpma_write(plain.conn, plain.there, offset, plain.here, offset, bytes, RPMA_F_COMPLETION_ON_ERROR, nullptr));
    must(rpma_flush(
            plain.conn, plain.there, offset, bytes, RPMA_FLUSH_TYPE_PERSISTENT, RPMA_F_COMPLETION_ALWAYS, nullptr));
    ibv_wc done{};
    int code = 0;
    while ((code = rpma_cq_get_wc(plain.cq, 1, &done, nullptr)) == RPMA_E_NO_COMPLETION) {
    }
    must(code != 0 || done.status != IBV_WC_SUCCESS);
}

// Sets with one and two targets, and a pool of librpmem.
rpma_mirror *one_target, *two_targets;
RPMEMpool *pool;

void flush_eight(rpma_mirror *set, std::size_t round)
{
    rpma_mirror_range ranges[8];
    for (std::size_t i = 0; i < std::size(ranges); ++i)
        ranges[i] = {(round * 8 + i) * page % length, 64};
    must(rpma_mirror_optimized_flush(set, 0, ranges, std::size(ranges), 0));
}

void flush_page(rpma_mirror *set, std::size_t round)
{
    const rpma_mirror_range range{round * page % length, page};
    must(rpma_mirror_optimized_flush(set, 0, &range, 1, 0));
}

void persist_eight(std::size_t round)
{
    for (std::size_t i = 0; i < 8; ++i)
        must(rpmem_persist(pool, (round * 8 + i) * page % length, 64, 0, 0));
}

measured calls[] = {
        {"rpma_write + rpma_flush, 512 B", [](std::size_t n) { write_and_flush(n * small_size % length, small_size); },
                {}},
        {"rpma_write + rpma_flush, 4 KiB", [](std::size_t n) { write_and_flush(n * page % length, page); }, {}},
        {"8 x 64 B to one target", [](std::size_t n) { flush_eight(one_target, n); }, {}},
        {"8 x 64 B to two targets", [](std::size_t n) { flush_eight(two_targets, n); }, {}},
        {"8 x rpmem_persist, 64 B", persist_eight, {}},
        {"4 KiB to one target", [](std::size_t n) { flush_page(one_target, n); }, {}},
};

// Each call is measured many times in succession, because a change of the polled connection costs the wakeup of a
// thread. Several series are measured.
void measure_calls()
{
    for (std::size_t batch = 0; batch < batches; ++batch)
        for (measured &m : calls)
            for (std::size_t i = 0; i < rounds; ++i) {
                const auto start = clock_type::now();
                m.call(i);
                if (i >= rounds / 10)
                    m.us.push_back(seconds_since(start) * 1e6);
            }
    const auto of = [](std::size_t row) { return median(calls[row].us); };
    for (std::size_t row = 0; row < std::size(calls); ++row)
        std::printf("%-34s %9.2f us\n", calls[row].what, of(row));
    std::printf("\n%-60s %6.2f\n", "8 x 64 B to one target / rpma_write + rpma_flush of 512 B", of(2) / of(0));
    std::printf("%-60s %6.2f\n", "8 x 64 B to two targets / to one", of(3) / of(2));
    std::printf("%-60s %6.2f\n", "8 x rpmem_persist / 8 x 64 B to one target", of(4) / of(2));
    std::printf("%-60s %6.2f\n", "4 KiB to one target / rpma_write + rpma_flush of 4 KiB", of(5) / of(1));
}

struct made_set {
    explicit made_set(unsigned count, std::size_t bytes) : targets(count)
    {
        const std::string size = " " + std::to_string(bytes >> 20) + "M";
        std::string text = "RPMAMIRROR\nlocal 0 " + home.where.path + "/home" + size + "\nkey-file " +
                           targets[0].where().path + "/key\ndevice softrdma\ntimeouts 20000 60000\n";
        for (unsigned i = 0; i < count; ++i) {
            const scratch &there = targets[i].where();
            there.write("set", "PMEMPOOLSET\nOPTION NOHDRS\n" + size.substr(1) + " " + there.path + "/part\n");
            text += "target " + std::to_string(i + 1) + " " + targets[i].place() + " set\n";
        }
        home.where.write("set", text);
        rpma_mirror_cfg *read = nullptr;
        must(rpma_mirror_cfg_from_file((home.where.path + "/set").c_str(), &read));
        cfg.reset(read);
        must(rpma_mirror_create(read));
    }

    std::vector<target> targets;
    host home;
    cfg_ptr cfg;
};

double to_open(const made_set &set, std::uint64_t &compared, std::uint64_t &sent)
{
    const auto start = clock_type::now();
    opened o(set.cfg.get());
    const double seconds = seconds_since(start);
    compared = o.report().compared_bytes;
    sent = o.report().sent_bytes;
    o.close();
    return seconds;
}

// Ends a writer without marking the copies as equal, so the next opening compares them.
constexpr auto nothing = [](const opened &) {};

struct rates {
    double verify, comparison, resync; // GB/s of each copy
};

// Time of an opening, minus that of a set that was closed cleanly.
rates measure_opening()
{
    const made_set set(1, big_set);
    std::uint64_t compared = 0, sent = 0;
    std::vector<double> closed, compares, sends;
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> content(big_set / sizeof(std::uint64_t));
    to_open(set, compared, sent);
    for (int i = 0; i < 7; ++i) {
        closed.push_back(to_open(set, compared, sent));
        must(compared != 0);
        use_and_die(set.cfg.get(), nothing);
        compares.push_back(to_open(set, compared, sent));
        must(compared != big_set || sent != 0);
        use_and_die(set.cfg.get(), nothing);
        std::ranges::generate(content, std::ref(random));
        const int fd = open((set.home.where.path + "/home").c_str(), O_WRONLY);
        must(pwrite(fd, content.data(), big_set, 0) != static_cast<ssize_t>(big_set));
        close(fd);
        sends.push_back(to_open(set, compared, sent));
        must(sent != big_set);
    }
    // The first opening has touched the pages of both copies.
    const opened o(set.cfg.get());
    std::vector<double> verifies;
    for (int i = 0; i < 5; ++i) {
        auto report = sized<rpma_mirror_verify_report>();
        const auto start = clock_type::now();
        must(rpma_mirror_verify(o.get(), 1, nullptr, &report));
        if (i > 0)
            verifies.push_back(seconds_since(start));
    }
    const double gigabytes = big_set / 1e9;
    return {gigabytes / median(verifies), gigabytes / (median(compares) - median(closed)),
            gigabytes / (median(sends) - median(closed))};
}

struct walk {
    clock_type::time_point begin;
    std::uint64_t compared_at_begin = 0;
    double rate = 0; // GB/s

    int operator()(const rpma_mirror_progress &progress)
    {
        if (compared_at_begin == 0)
            *this = {clock_type::now(), progress.compared_bytes};
        rate = static_cast<double>(progress.compared_bytes - compared_at_begin) / 1e9 / seconds_since(begin);
        return 0;
    }
};

// Resync of a target that was restarted while the set is open, measured from the first batch. Either all data or no
// data differs.
rates measure_return()
{
    made_set set(2, big_set);
    const opened o(set.cfg.get());
    rates found{};
    for (double *const to : {&found.comparison, &found.resync}) {
        std::vector<double> each;
        for (int i = 0; i < 5; ++i) {
            set.targets[1].kill();
            o.expect(RPMA_MIRROR_EVENT_EVICTED);
            for (std::uint64_t at = 0; at < big_set && to == &found.resync; at += 64)
                ++o.address()[at];
            must(o.flush(0, big_set));
            set.targets[1].start();
            walk w;
            const rpma_mirror_resync_options options = with_progress(w);
            must(rpma_mirror_resync(o.get(), 2, &options));
            each.push_back(w.rate);
        }
        *to = median(each);
    }
    return found;
}

// Seconds of an opening of 1 GiB after the writer was killed. Both copies have all pages.
double measure_failover()
{
    const made_set set(1, huge_set);
    opened first(set.cfg.get());
    std::memset(first.address(), 1, huge_set);
    must(first.flush(0, huge_set));
    first.close();
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) {
        use_and_die(set.cfg.get(), nothing);
        std::uint64_t compared = 0, sent = 0;
        seconds.push_back(to_open(set, compared, sent));
        must(compared != huge_set);
    }
    return median(seconds);
}

// Durations of flushes of 4 KiB in us, alone and during the resync of another target that differs completely.
struct beside_resync {
    std::vector<double> alone, beside;
    std::vector<double> rate; // GB/s of the resyncs, with connecting and joining
};

beside_resync measure_beside_resync(int resyncs, std::uint64_t bytes_per_second)
{
    made_set set(2, big_set);
    const opened o(set.cfg.get());
    set.targets[1].kill();
    o.expect(RPMA_MIRROR_EVENT_EVICTED);
    beside_resync found;
    auto options = sized<rpma_mirror_resync_options>();
    options.bytes_per_second = bytes_per_second;
    std::size_t round = 0;
    const auto flush_into = [&](std::vector<double> &us) {
        const auto start = clock_type::now();
        flush_page(o.get(), round++);
        us.push_back(seconds_since(start) * 1e6);
    };
    for (int i = 0; i < resyncs; ++i) {
        for (std::size_t at = 0; at < big_set; at += 64)
            ++o.address()[at];
        must(o.flush(0, big_set));
        for (std::size_t j = 0; j < rounds; ++j)
            flush_into(found.alone);
        set.targets[1].start();
        std::atomic<bool> done = false;
        std::jthread resync([&] {
            const auto start = clock_type::now();
            must(rpma_mirror_resync(o.get(), 2, &options));
            found.rate.push_back(big_set / 1e9 / seconds_since(start));
            done = true;
        });
        while (!done)
            flush_into(found.beside);
        resync.join();
        set.targets[1].kill();
        o.expect(RPMA_MIRROR_EVENT_EVICTED);
    }
    return found;
}

void print_beside_resync(const beside_resync &of)
{
    for (const auto &[name, us] : {std::pair{"without a resync", &of.alone}, std::pair{"during a resync", &of.beside}})
        std::printf("flushes of 4 KiB %-17s %7zu: us: median %.1f, 90 %% %.1f, 99 %% %.1f, maximum %.1f\n", name,
                us->size(), median(*us), percentile(*us, 90), percentile(*us, 99), std::ranges::max(*us));
    std::printf("%-60s %6.2f\n", "resync during these flushes, GB/s", median(of.rate));
    std::printf("%-60s %6.2f\n", "p99 of a flush of 4 KiB beside a resync / without",
            percentile(of.beside, 99) / percentile(of.alone, 99));
}

// Throughput of the network, then of the target's memory.
double measure_network()
{
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
        const auto start = clock_type::now();
        for (std::size_t done = 0; done < big_set; done += megabyte)
            write_and_flush(done, megabyte);
        seconds.push_back(seconds_since(start));
    }
    return big_set / 1e9 / median(seconds);
}

} // namespace

// The arguments `beside`, a number of resyncs and their rate in bytes per second (0: no limit) measure only flushes
// during these resyncs.
int main(int argc, char **argv)
{
    if (argc == 4 && std::string_view(argv[1]) == "beside") {
        print_beside_resync(measure_beside_resync(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10)));
        return 0;
    }
    auto *const memory = static_cast<char *>(
            mmap(nullptr, big_set, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const char *const path = std::getenv("SOFTRDMA_TRANSPORT");
    std::printf("SOFTRDMA_TRANSPORT %s\n\n", path == nullptr ? "not set: through memory of the same host" : path);
    const rates opening = measure_opening();
    const rates back = measure_return();
    const double failover = measure_failover();
    const beside_resync beside = measure_beside_resync(5, 0);
    connect_plain(std::getenv("RPMEM_TEST_DIR"), memory);
    unsigned lanes = 1;
    pool = rpmem_create("local:", "plain.set", memory, length, &lanes, nullptr);
    must(pool == nullptr);
    {
        const made_set one(1, length), two(2, length);
        opened first(one.cfg.get()), second(two.cfg.get());
        one_target = first.get();
        two_targets = second.get();
        measure_calls();
    }
    must(rpmem_close(pool));
    const double network = measure_network();
    std::printf("\n%-60s %6.2f\n", "comparison by hash, GB/s of each copy", opening.verify);
    std::printf("%-60s %6.2f\n", "the same by opening, which touches each page first, GB/s", opening.comparison);
    std::printf("%-60s %6.2f\n", "resync of all of it by opening, GB/s", opening.resync);
    std::printf("%-60s %6.2f\n", "comparison with a target that returns, GB/s", back.comparison);
    std::printf("%-60s %6.2f\n", "resync of all of it, GB/s", back.resync);
    std::printf("%-60s %6.2f\n", "rpma_write + rpma_flush of 1 MiB each, GB/s", network);
    std::printf("%-60s %6.2f\n", "resync of all of it / rpma_write + rpma_flush of 1 MiB each", back.resync / network);
    std::printf("%-60s %6.2f\n", "opening of 1 GiB after a crash, seconds", failover);
    print_beside_resync(beside);
    return 0;
}

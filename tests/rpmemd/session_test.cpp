// SPDX-License-Identifier: BSD-3-Clause
// Runs on softrdma, as does the daemon.
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "client.hpp"
#include "region/segments.hpp"

using replica::lane_request_kind;
using replica::status;

namespace
{

constexpr std::uint64_t mib = 1 << 20;
const std::string two = "PMEMPOOLSET\n8M @p0\n8M @p1\n";

replica::request keep_alive()
{
    replica::request r;
    r.mutable_keep_alive();
    return r;
}

replica::request close_request(bool removes = false)
{
    replica::request r;
    r.mutable_close()->set_remove(removes);
    return r;
}

// The tests run in a directory on a disk, and in memory.
struct place : scratch {
    place() { write("a.set", two); }
    bool is_empty() const { return !has("p0") && !has("p1"); }
};

// A daemon that has sent its greeting.
struct greeted_process : daemon_process {
    explicit greeted_process(const place &at, const std::vector<std::string> &options = {})
        : daemon_process(at, options)
    {
        greet();
    }
};

struct greeted_daemon {
    explicit greeted_daemon(const std::vector<std::string> &options = {}) : daemon(at, options) {}
    const place at;
    greeted_process daemon;
};

TEST(a_session_goes_from_greeting_to_close)
{
    const place at;
    daemon_process daemon(at, {"--log-level", "notice"});
    assert_int_equal(daemon.greet().error(), 0);
    const replica::response created = daemon.ask(pool_request(true, "a.set", 16 * mib - 4096, 2));
    assert_int_equal(status_of(created), status::success);
    const replica::wire::region &session = created.region();
    assert_true(session.has_header() && session.lanes() == 2 && session.size() == 16 * mib - 4096);
    assert_string_equal(session.address().c_str(), "127.0.0.1");
    assert_int_equal(session.device(), replica::device_software);
    {
        test_lane first(session, 0), second(session, 1);
        assert_true(first.is_connected() && second.is_connected());
        // Writes across the border between the parts.
        first.write(8 * mib - 4, "leftright");
        assert_int_equal(first.flush(8 * mib - 4, 9), 0);
        assert_int_equal(second.request(lane_request_kind::flush, {{8 * mib - 4, 9}, {4096, 0}}), 0);
        for (int i = 0; i < 50; ++i)
            assert_int_equal(first.request(lane_request_kind::deep_flush, {{4096, 100}, {15 * mib, 4096}}), 0);
        assert_string_equal(first.read_header(8).c_str(), "FIXTURE1");
        assert_false(first.can_write_header());
        assert_int_equal(second.request(lane_request_kind::flush, {{4096, 8}}), 0);
    }
    assert_int_equal(status_of(daemon.ask(keep_alive())), status::success); // it is alive
    assert_int_equal(status_of(daemon.ask(close_request())), status::success);
    assert_int_equal(daemon.exit_status(), 0);
    assert_string_equal(at.read("p0").substr(8 * mib - 4).c_str(), "left");
    assert_string_equal(at.read("p1").substr(4096, 5).c_str(), "right");
    const std::string log = at.read("log");
    assert_non_null(std::strstr(log.c_str(), "create the set 'a.set', 16773120 bytes, 2 lanes\n"));
    assert_non_null(std::strstr(log.c_str(), "\npersistency policy:\n"
                                             "    persist method: General Purpose Server Persistency Method\n"
                                             "    persist flush: pmem_msync\n"));
    assert_null(std::strstr(log.c_str(), "127.0.0.1"));
    assert_null(std::strstr(log.c_str(), std::to_string(session.port()).c_str()));
}

TEST(the_attributes_are_returned_and_modified)
{
    const place at;
    {
        greeted_process daemon(at);
        const replica::response created = daemon.ask(pool_request(true, "a.set", 8 * mib));
        assert_int_equal(status_of(created), status::success);
        replica::request change;
        change.mutable_set_attributes();
        // An empty request is rejected; the daemon continues to run.
        assert_int_equal(status_of(daemon.ask(change)), status::bad_config);
        rpmemd::pool_attributes now = original_attributes();
        now.signature = {'N', 'E', 'W'};
        now.user_flags = {7};
        to_wire(std::bit_cast<replica::pool_attributes>(now), *change.mutable_set_attributes());
        assert_int_equal(status_of(daemon.ask(change)), status::success);
        const test_lane lane(created.region(), 0);
        daemon.hang_up();
        assert_int_equal(daemon.exit_status(), 1);
    }
    greeted_process daemon(at);
    const replica::response opened = daemon.ask(pool_request(false, "a.set", 8 * mib));
    assert_int_equal(status_of(opened), status::success);
    const replica::pool_attributes attributes = replica::from_wire(opened.region().attributes());
    assert_string_equal(attributes.signature, "NEW");
    assert_int_equal(attributes.user_flags[0], 7);
}

FIXTURE_TEST(greeted_daemon, each_refusal_has_its_status_and_a_text)
{
    replica::request hardware = pool_request(true, "a.set", 8 * mib);
    hardware.mutable_create()->set_devices(replica::device_hardware);
    const std::pair<replica::request, replica::status> cases[] = {
            {pool_request(false, "none.set", 8 * mib), status::missing},
            {pool_request(true, "a.set", 8 * mib, 0), status::bad_config},
            {hardware, status::device_unsupported},
    };
    for (const auto &[request, expected] : cases) {
        const replica::response answer = daemon.ask(request);
        assert_int_equal(status_of(answer), expected);
        assert_false(answer.text().empty());
    }
    assert_true(at.is_empty());
    assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
    greeted_process other(at);
    assert_int_equal(status_of(other.ask(pool_request(false, "a.set", 8 * mib))), status::busy);
}

replica::request commit_request(const replica::mirror_record &record)
{
    replica::request r;
    r.set_set_name("a.set");
    to_wire(record, *r.mutable_commit()->mutable_record());
    return r;
}

replica::request prepare_request(const replica::mirror_promise &promise)
{
    replica::request r;
    r.set_set_name("a.set");
    to_wire(promise, *r.mutable_promise());
    r.mutable_prepare();
    return r;
}

// Pools with several targets.
TEST(a_promise_fences_clients_of_lower_epochs)
{
    const place at;
    greeted_process older(at), newer(at);
    // Without a record, nothing is promised.
    assert_int_equal(newer.ask(prepare_request({5, 9})).state().promised().epoch(), 0);
    assert_int_equal(status_of(older.ask(pool_request(true, "a.set", 8 * mib))), status::success);
    assert_int_equal(status_of(older.ask(commit_request({1, 1, 7}))), status::success);
    assert_int_equal(status_of(older.ask(commit_request({1, 2, 8}))), status::fenced);
    // The parts are in use, which does not prevent the promise.
    replica::request open = pool_request(false, "a.set", 8 * mib);
    open.mutable_open()->set_features(replica::feature_record);
    assert_int_equal(status_of(newer.ask(open)), status::busy);
    assert_int_equal(status_of(newer.ask(prepare_request({1, 9}))), status::fenced);
    const replica::response promised = newer.ask(prepare_request({2, 9}));
    assert_int_equal(status_of(promised), status::success);
    assert_int_equal(promised.state().promised().epoch(), 2);
    assert_int_equal(promised.state().committed().epoch(), 1);
    assert_int_equal(status_of(older.ask(commit_request({1, 2, 7}))), status::fenced);
    assert_int_equal(status_of(older.ask(prepare_request({2, 7}))), status::fenced);
    assert_int_equal(status_of(older.ask(close_request())), status::success);
    assert_int_equal(status_of(newer.ask(commit_request({2, 1, 9}))), status::bad_config); // it has no pool open
    assert_int_equal(status_of(newer.ask(open)), status::success);
    assert_int_equal(status_of(newer.ask(commit_request({2, 1, 9}))), status::success);
    // A client of an earlier version requests no promise.
    assert_int_equal(status_of(newer.ask(commit_request({3, 1, 0}))), status::success);
    assert_int_equal(status_of(newer.ask(commit_request({2, 2, 9}))), status::fenced);
    newer.ask(close_request());
}

// Like a daemon that was stopped while it stored the record.
FIXTURE_TEST(greeted_daemon, a_locked_record_can_be_read)
{
    greeted_process other(at);
    assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
    assert_int_equal(status_of(daemon.ask(commit_request({1, 1, 7}))), status::success);
    const replica::fd_owner record(open((at.path + "/a.set.record").c_str(), O_RDWR | O_CLOEXEC));
    assert_int_equal(flock(record.get(), LOCK_EX | LOCK_NB), 0);
    replica::request get_state;
    get_state.set_set_name("a.set");
    get_state.mutable_get_state();
    const replica::response found = other.ask(get_state);
    assert_int_equal(status_of(found), status::success);
    assert_int_equal(found.state().committed().epoch(), 1);
    const replica::response rejected = other.ask(prepare_request({2, 9}));
    assert_int_equal(status_of(rejected), status::busy);
    assert_non_null(std::strstr(rejected.text().c_str(), "locked by another rpmemd"));
    assert_int_equal(status_of(daemon.ask(commit_request({1, 2, 7}))), status::busy);
    flock(record.get(), LOCK_UN);
    assert_int_equal(status_of(other.ask(prepare_request({2, 9}))), status::success);
}

FIXTURE_TEST(greeted_daemon, the_client_of_a_pool_compares_it_by_hash)
{
    replica::request hash;
    hash.mutable_hash()->set_offset(4096);
    hash.mutable_hash()->set_length(replica::segment_size + 1);
    assert_int_equal(status_of(daemon.ask(hash)), status::bad_config);
    assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
    const std::vector<std::byte> zeros(replica::segment_size + 1);
    assert_true(daemon.ask(hash).hashes() == replica::hash_segments(zeros));
    hash.mutable_hash()->set_offset(16 * mib - replica::segment_size);
    assert_int_equal(status_of(daemon.ask(hash)), status::bad_config);
}

TEST(an_unused_pool_is_removed_with_its_client)
{
    const place at;
    {
        greeted_process daemon(at);
        assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
        assert_false(at.is_empty());
        daemon.hang_up();
        assert_int_equal(daemon.exit_status(), 1);
    }
    assert_true(at.is_empty());
    { // The client that closes the pool can also request its removal.
        greeted_process daemon(at);
        const replica::response created = daemon.ask(pool_request(true, "a.set", 8 * mib));
        const test_lane lane(created.region(), 0);
        assert_int_equal(status_of(daemon.ask(close_request(true))), status::success);
        assert_int_equal(daemon.exit_status(), 0);
    }
    assert_true(at.is_empty());
    { // A pool that was used remains, and so does one that was only opened.
        greeted_process daemon(at);
        const replica::response created = daemon.ask(pool_request(true, "a.set", 8 * mib));
        test_lane lane(created.region(), 0);
        assert_int_equal(lane.request(lane_request_kind::flush, {{4096, 8}}), 0);
        daemon.hang_up();
        assert_int_equal(daemon.exit_status(), 1);
        assert_true(lane.is_gone());
    }
    greeted_process daemon(at);
    assert_int_equal(status_of(daemon.ask(pool_request(false, "a.set", 8 * mib))), status::success);
    daemon.hang_up();
    assert_int_equal(daemon.exit_status(), 1);
    assert_false(at.is_empty());
}

FIXTURE_TEST(greeted_daemon, unauthenticated_peers_get_no_lane)
{
    const replica::wire::region session = daemon.ask(pool_request(true, "a.set", 8 * mib, 2)).region();
    replica::token other = token_of(session);
    other[31] ^= std::byte{1};
    assert_false(test_lane(session, 0, other).is_connected());
    assert_false(test_lane(session, 2).is_connected()); // the session has two lanes
    test_lane first(session, 0);
    assert_true(first.is_connected());
    assert_false(test_lane(session, 0).is_connected()); // each lane can connect only once
    test_lane second(session, 1);
    assert_true(second.is_connected());
    assert_int_equal(first.request(lane_request_kind::flush, {{4096, 8}}), 0);
    assert_int_equal(second.request(lane_request_kind::flush, {{4096, 8}}), 0);
}

FIXTURE_TEST(greeted_daemon, a_bad_request_closes_its_lane_only)
{
    const std::vector<replica::range> bad[] = {
            {{0, 8}},
            {{4095, 8}},
            {{8 * mib, 1}},
            {{8 * mib - 7, 8}},
            {{4096, UINT64_MAX}},
            {{UINT64_MAX - 7, 16}},
            {{4096, 8}, {9 * mib, 8}},
    };
    const auto count = static_cast<std::uint32_t>(std::size(bad));
    const replica::wire::region session = daemon.ask(pool_request(true, "a.set", 8 * mib, count + 2)).region();
    assert_int_equal(session.lanes(), count + 2);
    test_lane good(session, count);
    for (std::uint32_t i = 0; i < count; ++i) {
        test_lane lane(session, i);
        assert_true(lane.is_connected());
        assert_int_equal(lane.request(lane_request_kind::flush, bad[i]), -1);
        assert_int_equal(good.request(lane_request_kind::flush, {{4096, 8 * mib - 4096}}), 0);
    }
    test_lane garbage(session, count + 1);
    const std::vector<std::byte> nonsense(100, std::byte{0xff});
    assert_int_equal(garbage.send_raw(nonsense), -1);
    assert_int_equal(good.request(lane_request_kind::deep_flush, {{4096, 8}}), 0);
    assert_int_equal(status_of(daemon.ask(keep_alive())), status::success);
}

TEST(a_malformed_message_ends_the_session)
{
    const place at;
    const std::string words = "GET / HTTP/1.1\r\nHost: target\r\n\r\n", huge(20, '\x7f');
    // The close request of version 1: type, size, version, number and flag.
    const std::string old("\0\0\0\5\0\0\0\0\0\0\0\x18\0\1\0\0\0\0\0\1\0\0\0\0", 24);
    for (const std::string &bytes : {words, huge, old}) {
        greeted_process daemon(at);
        assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
        daemon.send(bytes);
        assert_int_equal(daemon.exit_status(), 255);
        assert_true(at.is_empty());
    }
    assert_non_null(std::strstr(at.read("log").c_str(), "client uses another version of the protocol"));
    greeted_process daemon(at);
    assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::success);
    daemon.send(replica::encode(pool_request(true, "a.set", 8 * mib)));
    assert_int_equal(daemon.exit_status(), 255);
}

TEST(a_client_may_go_at_any_point)
{
    const place at;
    const std::string create = replica::encode(pool_request(true, "a.set", 8 * mib));
    const std::size_t size = create.size();
    for (const std::size_t sent : {std::size_t{0}, std::size_t{1}, replica::frame_header_size, size - 1, size}) {
        greeted_process daemon(at);
        daemon.send(create.substr(0, sent));
        daemon.hang_up();
        assert_int_equal(daemon.exit_status(), 1);
        assert_true(at.is_empty());
    }
}

FIXTURE_TEST(greeted_daemon, a_silent_client_is_gone_after_a_while, {"--session-timeout", "1"})
{
    replica::request create = pool_request(true, "a.set", 8 * mib);
    create.mutable_create()->set_keep_alive_ms(100);
    assert_int_equal(status_of(daemon.ask(create)), status::success);
    assert_int_equal(daemon.exit_status(), 1);
    greeted_process mute(at, {"--session-timeout", "1"});
    assert_int_equal(mute.exit_status(), 1);
}

FIXTURE_TEST(greeted_daemon, limits_hold,
        std::vector<std::string>{"--max-lanes", "3", "--max-bytes", "1048576", "--nthreads", "2"})
{
    assert_int_equal(status_of(daemon.ask(pool_request(true, "a.set", 8 * mib))), status::bad_size);
    const replica::wire::region session = daemon.ask(pool_request(true, "a.set", mib, 100)).region();
    assert_int_equal(session.lanes(), 3);
    for (std::uint32_t i = 0; i < 3; ++i) {
        test_lane lane(session, i);
        assert_int_equal(lane.request(lane_request_kind::flush, {{4096, 8}}), 0);
    }
    daemon_process other(at, {"--max-sessions", "1"});
    const replica::greeting refused = other.greet();
    assert_int_equal(refused.error(), EUSERS);
    assert_non_null(std::strstr(refused.text().c_str(), "max-sessions"));
    assert_int_equal(other.exit_status(), 1);
}

struct policy_case {
    const char *variable, *value;
    std::vector<std::string> options;
    replica::method method;
    replica::level level;
    const char *lines;
};

TEST(methods_and_levels_are_reported)
{
    const policy_case cases[] = {
            {nullptr, nullptr, {}, replica::method::persistent_flush, replica::level::page_cache_sync,
                    "General Purpose Server Persistency Method\n    persist flush: pmem_msync"},
            {nullptr, nullptr, {"--persist-apm"}, replica::method::persistent_flush, replica::level::page_cache_sync,
                    "General Purpose Server Persistency Method\n    persist flush: pmem_msync"},
            {"PMEM_IS_PMEM_FORCE", "1", {"--persist-general"}, replica::method::persistent_flush,
                    replica::level::cpu_flushed,
                    "General Purpose Server Persistency Method\n    persist flush: pmem_persist"},
            {"PMEM_IS_PMEM_FORCE", "1", {"--persist-apm"}, replica::method::persistent_flush,
                    replica::level::direct_write, "Appliance Persistency Method\n    persist flush: none"},
    };
    for (const policy_case &c : cases) {
        const place at;
        if (c.variable != nullptr)
            setenv(c.variable, c.value, 1);
        std::vector<std::string> options = {"--log-level=notice"};
        options.insert(options.end(), c.options.begin(), c.options.end());
        greeted_process daemon(at, options);
        const replica::wire::region session = daemon.ask(pool_request(true, "a.set", 8 * mib)).region();
        unsetenv("PMEM_IS_PMEM_FORCE");
        assert_int_equal(session.method(), c.method);
        assert_int_equal(session.level(), c.level);
        assert_int_equal(session.features(), replica::feature_keep_alive | replica::feature_native_flush);
        assert_non_null(std::strstr(at.read("log").c_str(), c.lines));
        assert_int_equal(at.read("log").find(", 4 where") != std::string::npos, c.variable != nullptr);
        test_lane lane(session, 0);
        lane.write(4096, "x");
        assert_int_equal(lane.flush(4096, 1), 0);
    }
}

// A session whose client disappeared without closing its connection, as after a network failure, and the next session
// of this client.
constexpr std::uint32_t keep_alive_ms = 100;

replica::request request_of(bool create, std::uint32_t promised_ms)
{
    replica::request r = pool_request(create, "a.set", 8 * mib);
    (create ? r.mutable_create() : r.mutable_open())->set_keep_alive_ms(promised_ms);
    return r;
}

replica::wire::region begin(greeted_process &daemon, bool create, std::uint32_t promised_ms)
{
    const replica::response a = daemon.ask(request_of(create, promised_ms));
    assert_int_equal(status_of(a), replica::status::success);
    return a.region();
}

replica::status try_to_open(const place &at)
{
    greeted_process next(at);
    return status_of(next.ask(request_of(false, 0)));
}

FIXTURE_TEST(greeted_daemon, the_next_session_of_a_client_that_is_gone_takes_over)
{
    greeted_process next(at);
    test_lane lane(begin(daemon, true, keep_alive_ms), 0);
    lane.write(4096, "before");
    assert_int_equal(lane.flush(4096, 6), 0);
    const replica::wire::region second = begin(next, false, keep_alive_ms);
    assert_int_equal(daemon.exit_status(), 1);
    // No data of the first session arrives after that.
    assert_false(lane.try_write(4096, "behind"));
    const test_lane own(second, 0);
    assert_string_equal(at.read("p0").substr(4096, 6).c_str(), "before");
}

FIXTURE_TEST(greeted_daemon, so_does_a_creation_after_one_that_was_cut)
{
    greeted_process next(at);
    begin(daemon, true, keep_alive_ms);
    const test_lane lane(begin(next, true, keep_alive_ms), 0);
    assert_int_equal(daemon.exit_status(), 1);
    assert_true(lane.is_connected() && at.has("p0"));
}

FIXTURE_TEST(greeted_daemon, a_client_that_lives_stays)
{
    const test_lane lane(begin(daemon, true, keep_alive_ms), 0);
    const std::jthread client([this](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            daemon.ask({});
            usleep(keep_alive_ms * 1000 / 4);
        }
    });
    assert_int_equal(try_to_open(at), replica::status::busy);
}

FIXTURE_TEST(greeted_daemon, a_client_elsewhere_takes_nothing)
{
    const test_lane lane(begin(daemon, true, keep_alive_ms), 0);
    setenv("SSH_CONNECTION", "192.0.2.7 50000 127.0.0.1 22", 1);
    const replica::status found = try_to_open(at);
    unsetenv("SSH_CONNECTION");
    assert_int_equal(found, replica::status::busy);
}

FIXTURE_TEST(greeted_daemon, a_client_that_promised_nothing_may_be_silent)
{
    const test_lane lane(begin(daemon, true, 0), 0);
    assert_int_equal(try_to_open(at), replica::status::busy);
}

} // namespace

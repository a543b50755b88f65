// SPDX-License-Identifier: BSD-3-Clause
// Copies of mirrored sets: which writer has access, the effect of earlier writers, and the state that survives the
// daemon. Runs on softrdma, like the daemon.
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <poll.h>
#include <thread>

#include "mirror_client.hpp"
#include "region/segments.hpp"

namespace
{

constexpr mirror_promise first{1, 100}, second{2, 200};

replica::mirror_state state_of(const replica::response &r)
{
    return replica::from_wire(r.state());
}

// Daemon with a writer that has created the copy.
struct with_copy : running_daemon {
    with_copy() { w.create(); }
    writer w{daemon};
};
// Its writer has the promise of the first epoch.
struct with_promise : with_copy {
    with_promise() { w.prepare(first); }
};

// The daemon and the writer can be restarted.
struct restartable {
    restartable()
    {
        restart();
        w->create();
        w->prepare(first);
        w->commit(first, 1);
    }
    // The new file has the same content.
    void replace_part() const
    {
        const std::string part = at.path + "/p0";
        std::filesystem::copy_file(part, part + ".backup");
        std::filesystem::rename(part + ".backup", part);
    }
    void restart()
    {
        w.reset();
        daemon.reset();
        daemon.emplace(at);
        w.emplace(*daemon);
    }
    const place at;
    std::optional<standing_daemon> daemon;
    std::optional<writer> w;
};

// Connects the first lane of a session.
test_lane connect_lane(const replica::response &attached, const mirror_promise &promise = first)
{
    return test_lane(attached.region(), 0, token_of(attached.region()), promise.epoch);
}

FIXTURE_TEST(running_daemon, a_set_is_created_once)
{
    writer w(daemon);
    assert_int_equal(status_of(w.state()), status::missing);
    assert_int_equal(w.prepare(first), status::missing);
    const replica::response created = w.create();
    assert_int_equal(status_of(created), status::success);
    assert_true(created.state().length() == length && created.state().copy() == 1 &&
                created.state().promised().epoch() == 0);
    assert_int_equal(status_of(w.create()), status::exists);
    assert_true(state_of(w.state()) == state_of(created));
    assert_true(at.has("p0") && at.has("a.set.mirror"));
    replica::request other = w.about(kind::kPrepare, first);
    other.set_set(std::string(sizeof(replica::set_uuid), '\x78'));
    assert_int_equal(status_of(w.ask(other)), status::bad_config);
    other = w.about(kind::kCreateCopy);
    other.set_set_name("../a.set");
    assert_int_equal(status_of(w.ask(other)), status::bad_name);
    assert_int_equal(status_of(w.ask(pool_request(true, "a.set", length))), status::unsupported);
    assert_int_equal(daemon.end(), 0);
}

// The daemon forgets no set, and has a limit of 1024 sets.
FIXTURE_TEST(running_daemon, names_without_a_set_file_take_no_capacity)
{
    writer w(daemon);
    replica::request missing = w.about(kind::kGetState);
    for (int i = 0; i < 1100; ++i) {
        missing.set_set_name("missing" + std::to_string(i));
        assert_int_equal(status_of(w.ask(missing)), status::missing);
    }
    assert_int_equal(status_of(w.create()), status::success);
}

FIXTURE_TEST(restartable, all_names_of_a_set_file_are_one_set)
{
    restart(); // the daemon has not used the set yet
    replica::request other = w->about(kind::kPrepare, second);
    other.set_set_name(".//a.set");
    assert_int_equal(status_of(w->ask(other)), status::success);
    assert_true(state_of(w->state()).promised == second);
}

FIXTURE_TEST(with_copy, flushed_data_is_in_the_part)
{
    assert_int_equal(status_of(w.attach(first)), status::fenced); // not promised yet
    assert_int_equal(w.commit(first, 1), status::fenced);
    assert_int_equal(w.prepare(first), status::success);
    assert_int_equal(w.prepare(first), status::success); // the response may have been lost
    assert_int_equal(w.commit(first, 1), status::success);
    assert_int_equal(w.commit(first, 1), status::success);
    const replica::response attached = w.attach(first);
    assert_int_equal(status_of(attached), status::success);
    const replica::wire::region &target = attached.region();
    assert_true(target.size() == length && !target.has_header() && target.lanes() == 1);
    test_lane lane(target, 0, token_of(target), first.epoch);
    assert_true(lane.is_connected());
    lane.write(4096, "mirrored");
    assert_int_equal(lane.flush(4096, 8), 0);
    assert_int_equal(lane.request(replica::lane_request_kind::deep_flush, {{4096, 8}}), 0);
    assert_string_equal(at.read("p0").substr(4096, 8).c_str(), "mirrored");
}

FIXTURE_TEST(with_copy, only_the_epoch_of_the_promise_gets_a_lane)
{
    w.prepare(second);
    const replica::wire::region session = w.attach(second).region();
    for (const std::uint64_t epoch : {0U, 1U, 3U}) {
        const test_lane lane(session, 0, token_of(session), epoch);
        assert_false(lane.is_connected());
    }
    const test_lane lane(session, 0, token_of(session), 2);
    assert_true(lane.is_connected());
}

FIXTURE_TEST(running_daemon, a_higher_epoch_fences_the_lower_one)
{
    writer old(daemon), now(daemon);
    old.create();
    old.prepare(first);
    old.commit(first, 1);
    const replica::wire::region session = old.attach(first).region();
    test_lane lane(session, 0, token_of(session), first.epoch);
    lane.write(0, "before");
    assert_int_equal(now.prepare({1, 200}), status::fenced); // the epoch was already acquired
    assert_int_equal(lane.flush(0, 6), 0);
    const replica::response prepared = now.ask(now.about(kind::kPrepare, second));
    assert_int_equal(status_of(prepared), status::success);
    assert_true(state_of(prepared).promised == second && prepared.state().committed().epoch() == 1);
    assert_int_not_equal(lane.flush(0, 6), 0);
    assert_int_equal(old.commit(first, 2), status::fenced);
    assert_int_equal(status_of(old.attach(first)), status::fenced);
    assert_int_equal(old.prepare(first), status::fenced);
    const test_lane again(session, 0, token_of(session), first.epoch);
    assert_false(again.is_connected());
    test_lane good = connect_lane(now.attach(second), second);
    good.write(0, "after!");
    assert_int_equal(good.flush(0, 6), 0);
    assert_string_equal(at.read("p0").substr(0, 6).c_str(), "after!");
}

FIXTURE_TEST(with_promise, segments_are_hashed_where_they_are)
{
    replica::request asked = w.about(kind::kHash, first);
    asked.mutable_hash()->set_offset(replica::segment_size);
    asked.mutable_hash()->set_length(2 * replica::segment_size + 10);
    assert_int_equal(status_of(w.ask(asked)), status::bad_config); // a set cannot be opened without lanes
    test_lane lane = connect_lane(w.attach(first));
    lane.write(2 * replica::segment_size, "other");
    const replica::response hashed = w.ask(asked);
    assert_int_equal(status_of(hashed), status::success);
    std::array<replica::segment_hash, 3> hashes{};
    assert_int_equal(hashed.hashes().size(), sizeof(hashes));
    std::memcpy(&hashes, hashed.hashes().data(), sizeof(hashes));
    const std::string bytes = at.read("p0");
    for (std::size_t i = 0; i < 3; ++i) {
        const std::string segment = bytes.substr((i + 1) * replica::segment_size, i < 2 ? replica::segment_size : 10);
        assert_true(hashes[i] == replica::hash_segment(std::as_bytes(std::span(segment))));
    }
    assert_true(hashes[0] != hashes[1]);
    asked.mutable_hash()->set_offset(length);
    asked.mutable_hash()->set_length(1);
    assert_int_equal(status_of(w.ask(asked)), status::bad_config);
    to_wire(second, *asked.mutable_promise());
    assert_int_equal(status_of(w.ask(asked)), status::fenced);
}

// An access beyond the end of a mapped file raises SIGBUS.
FIXTURE_TEST(with_promise, a_truncated_part_is_reported)
{
    w.commit(first, 1);
    w.attach(first);
    std::filesystem::resize_file(at.path + "/p0", replica::page_size);
    replica::request asked = w.about(kind::kHash, first);
    asked.mutable_hash()->set_length(2 * replica::segment_size);
    assert_int_equal(status_of(w.ask(asked)), status::fatal);
    writer reader(daemon);
    assert_int_equal(status_of(reader.read(true)), status::fatal);
    assert_int_equal(w.prepare(first), status::success);
    assert_int_equal(daemon.end(), 0);
}

FIXTURE_TEST(with_promise, a_reader_receives_the_reason_for_a_missing_point)
{
    writer reader(daemon);
    w.attach(first);
    w.commit(first, 1, 5);
    assert_false(reader.read(false).image().is_complete());
    std::filesystem::resize_file(at.path + "/p0", replica::page_size);
    w.commit(first, 2, 6);
    const replica::response rejected = reader.read(false);
    assert_int_equal(status_of(rejected), status::fatal);
    assert_non_null(std::strstr(rejected.text().c_str(), "cannot read the parts"));
}

// A set that grows has the same lanes, and the next point is one.
FIXTURE_TEST(with_promise, a_point_after_a_growth_is_read)
{
    writer reader(daemon);
    w.attach(first);
    w.commit(first, 1, 5);
    assert_false(reader.read(false).image().is_complete());
    at.write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n16M @p0\n");
    // A busy machine can need more than 100 ms for a copy, which the daemon leaves out then. It permits three of these.
    std::uint64_t grown = length;
    replica::wire::image taken;
    for (std::uint64_t version = 2; version < 5 && !taken.is_complete(); ++version) {
        grown += replica::page_size;
        assert_int_equal(status_of(w.ask(writer::resize_to(grown, false, first))), status::success);
        w.attach(first);
        // This poll gives the image the new length.
        assert_false(reader.read(false).image().is_complete());
        w.commit(first, version, version + 5);
        taken = reader.read(false).image();
    }
    assert_true(taken.is_complete() && taken.is_consistent());
    assert_int_equal(reader.attach_reader().region().size(), grown);
}

std::uint64_t store_cursor(writer &w)
{
    return w.ask(writer::cursor_at(4 << 20, first)).state().cursor();
}

FIXTURE_TEST(restartable, a_cursor_is_of_one_epoch_and_one_daemon)
{
    assert_int_equal(store_cursor(*w), 4 << 20);
    w->prepare(first);
    assert_int_equal(w->state().state().cursor(), 4 << 20);
    restart();
    w->prepare(first);
    assert_int_equal(w->state().state().cursor(), 0);
    assert_int_equal(store_cursor(*w), 4 << 20);
    w->prepare(second);
    assert_int_equal(w->state().state().cursor(), 0);
    assert_int_equal(status_of(w->ask(writer::cursor_at(0, first))), status::fenced);
}

// The bit of the copy stays removed until the next record, because the record might not be the newest one.
FIXTURE_TEST(restartable, replaced_parts_are_reported_until_a_resync)
{
    std::uint64_t epoch = first.epoch;
    const auto restart_with = [&](bool replaces) {
        if (replaces)
            replace_part();
        restart();
        ++epoch;
        return state_of(w->ask(w->about(kind::kPrepare, {epoch, epoch})));
    };
    assert_false(has_changed_parts(restart_with(false)));
    for (int times = 0; times < 2; ++times) {
        assert_true(has_changed_parts(restart_with(true)));
        assert_true(has_changed_parts(restart_with(false)));
        assert_int_equal(status_of(w->attach({epoch, epoch})), status::success);
        for (const std::uint64_t offset : {length / 2, length}) {
            const replica::mirror_state s = state_of(w->ask(writer::cursor_at(offset, {epoch, epoch})));
            assert_true(s.committed.in_sync == 1 && has_changed_parts(s) == (offset != length));
        }
        assert_false(has_changed_parts(restart_with(false)));
    }
    assert_int_equal(w->commit({epoch, epoch}, 1), status::success);
    const replica::mirror_state s = state_of(w->state());
    assert_true(s.committed.in_sync == 3 && !s.resynced);
}

// The daemon populates the pages of a copy in the background, which changes the times of its parts.
TEST(a_copy_that_is_closed_at_once_is_unchanged)
{
    const place at;
    const scratch_directory memory("/dev/shm");
    at.write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n512M " + memory.path + "/p0\n");
    const standing_daemon daemon(at);
    writer w(daemon);
    replica::request create = writer::about(kind::kCreateCopy);
    create.mutable_create_copy()->set_length(512ULL << 20);
    assert_int_equal(status_of(w.ask(create)), status::success);
    w.prepare(first);
    assert_int_equal(status_of(w.attach(first)), status::success);
    assert_int_equal(w.commit(first, 1, 0, true), status::success);
    usleep(50'000);
    assert_false(has_changed_parts(state_of(w.ask(writer::about(kind::kPrepare, second)))));
}

FIXTURE_TEST(running_daemon, nothing_is_written_after_the_promise)
{
    writer old(daemon), now(daemon);
    old.create();
    for (std::uint64_t epoch = 1; epoch < 21; epoch += 2) {
        assert_int_equal(old.prepare({epoch, 100}), status::success);
        const replica::wire::region session = old.attach({epoch, 100}).region();
        test_lane lane(session, 0, token_of(session), epoch);
        assert_true(lane.is_connected());
        std::atomic<bool> writing = false;
        std::thread writes([&] {
            for (unsigned i = 0; lane.try_write(i % 4 * 4096, std::string(4096, static_cast<char>('a' + i % 26))); ++i)
                writing = true;
        });
        while (!writing)
            std::this_thread::yield();
        assert_int_equal(now.prepare({epoch + 1, 200}), status::success);
        const std::string then = at.read("p0");
        writes.join(); // the write failed
        usleep(20'000);
        assert_true(at.read("p0") == then);
    }
}

FIXTURE_TEST(running_daemon, lanes_go_with_their_writer)
{
    std::optional<writer> w(std::in_place, daemon);
    w->create();
    w->prepare(first);
    test_lane lane = connect_lane(w->attach(first));
    assert_true(lane.is_connected());
    w.reset();
    assert_true(lane.is_gone());
    // It may reconnect, because it has the promise.
    writer back(daemon);
    assert_int_equal(status_of(back.attach(first)), status::success);
}

// Its promise would take the set from the live writer.
FIXTURE_TEST(with_promise, requests_of_a_dead_writer_are_not_executed)
{
    test_lane lane = connect_lane(w.attach(first));
    writer dead(daemon);
    daemon.stop();
    dead.leave_with(dead.about(kind::kPrepare, second));
    daemon.resume();
    // The delay gives its session time to process the message.
    usleep(100'000);
    assert_true(state_of(w.state()).promised == first);
    lane.write(0, "living");
    assert_int_equal(lane.flush(0, 6), 0);
    assert_int_equal(writer(daemon).prepare({second.epoch, second.writer + 1}), status::success);
}

FIXTURE_TEST(running_daemon, unauthenticated_peers_change_nothing)
{
    replica::response a;
    for (const auto &[key, message] :
            {std::pair("writer:000102030405060708090a0b0c0d0e0f", "wrong key of identity 'writer'"),
                    std::pair("other:000102030405060708090a0b0c0d0e0f", "unknown identity 'other'")}) {
        writer stranger(daemon, key);
        assert_non_null(std::strstr(stranger.failure().c_str(), message));
        assert_false(stranger.send(stranger.about(kind::kCreateCopy), a));
    }
    // A client without TLS.
    const replica::fd_owner plain = connect_to(daemon);
    assert_true(
            send_message(plain.get(), replica::deadline(limit_ms), replica::encode(writer::about(kind::kCreateCopy))));
    assert_true(receive(plain.get(), replica::deadline(limit_ms), a) != replica::received::message);
    assert_false(at.has("a.set.mirror"));
    assert_int_equal(status_of(writer(daemon).state()), status::missing);
}

// Forwards a connection, and records its bytes in both directions.
class wiretap
{
public:
    explicit wiretap(const standing_daemon &to) : ends_{replica::fd_owner(), connect_to(to)}
    {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        client_.reset(pair[0]);
        ends_[0].reset(pair[1]);
        thread_ = std::thread([this] { forward(); });
    }
    replica::fd_owner release() { return std::move(client_); }
    // Ends when the client has closed its connection.
    std::string recorded()
    {
        thread_.join();
        return bytes_;
    }

private:
    void forward()
    {
        for (;;) {
            pollfd ready[] = {{ends_[0].get(), POLLIN, 0}, {ends_[1].get(), POLLIN, 0}};
            poll(ready, 2, limit_ms);
            for (std::size_t i = 0; i < 2; ++i) {
                char bytes[4096];
                const ssize_t got = ready[i].revents == 0 ? 0 : read(ready[i].fd, bytes, sizeof(bytes));
                if (got < 0 || (got == 0 && ready[i].revents != 0))
                    return;
                bytes_.append(bytes, static_cast<std::size_t>(got));
                if (got > 0 && send(ready[1 - i].fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
                    return;
            }
        }
    }

    replica::fd_owner client_, ends_[2];
    std::string bytes_;
    std::thread thread_;
};

FIXTURE_TEST(running_daemon, the_network_sees_no_message)
{
    wiretap tap(daemon);
    std::string token;
    {
        writer w(tap.release());
        w.create();
        w.prepare(first);
        token = w.attach(first).region().token();
    }
    const std::string recorded = tap.recorded();
    assert_true(token.size() == sizeof(replica::token) && recorded.size() > 1000);
    for (const std::string &secret : {token, std::string("RPM1"), std::string("a.set"), std::string(16, '\x77')})
        assert_true(recorded.find(secret) == std::string::npos);
}

const std::string reader_key = "reader:" + std::string(32, '1') + "\n";
const std::string admin_key = "admin:" + std::string(32, '2') + "\n";

// A daemon that reads a configuration of its own.
struct configured_place : place {
    void configure(const std::string &keys, const std::string &lines) const
    {
        write("key", keys, 0600);
        write("conf", "log-level = notice\n" + lines);
    }
    std::vector<std::string> options() const { return {"--config", path + "/conf"}; }
};

void assert_rejected(const replica::response &a, const char *text)
{
    assert_int_equal(status_of(a), status::no_access);
    if (a.text().find(text) == std::string::npos)
        fail_msg("%s", a.text().c_str());
}

TEST(each_identity_has_its_roles)
{
    configured_place at;
    at.configure(rpmemd_key + reader_key + admin_key + "other:" + std::string(32, '3'),
            "identity = writer write a*\nidentity = reader read *\nidentity = admin administer a.set\n"
            "identity = other read,write,administer b.set\n");
    const standing_daemon daemon(at, at.options());
    writer w(daemon), reader(daemon, reader_key), admin(daemon, admin_key),
            other(daemon, "other:" + std::string(32, '3'));
    assert_rejected(w.create(), "set 'a.set': identity 'writer' does not have the role administer");
    assert_rejected(reader.create(), "set 'a.set': identity 'reader' does not have the role administer");
    assert_rejected(other.create(), "set 'a.set': identity 'other' does not have the role administer");
    assert_int_equal(status_of(admin.create()), status::success);
    assert_int_equal(reader.prepare(first), status::no_access);
    assert_rejected(reader.attach(first), "does not have the role write (see identity in rpmemd.conf on the target)");
    assert_int_equal(w.prepare(first), status::success);
    // An opening gives each copy the length of its source.
    const auto resize = writer::resize_to(length, false, first);
    assert_rejected(admin.ask(resize), "identity 'admin' does not have the role write");
    assert_int_equal(status_of(w.ask(resize)), status::success);
    assert_int_equal(status_of(w.attach(first)), status::success);
    assert_rejected(admin.attach(first), "identity 'admin' does not have the role write");
    assert_rejected(admin.attach_reader(), "identity 'admin' does not have the role read or write");
    assert_int_equal(reader.commit(first, 1), status::no_access);
    assert_int_equal(w.commit(first, 1), status::success);
    assert_int_equal(status_of(reader.read(true)), status::success);
    assert_int_equal(status_of(reader.state()), status::success);
    assert_int_equal(status_of(other.state()), status::no_access);
    assert_true(state_of(w.state()).promised == first);
    assert_int_equal(admin.prepare(second), status::success); // a fence
}

TEST(sighup_changes_keys_of_new_sessions)
{
    configured_place at;
    at.configure(rpmemd_key, "");
    const standing_daemon daemon(at, at.options());
    writer old(daemon);
    old.create();
    old.prepare(first);
    test_lane lane = connect_lane(old.attach(first));
    assert_false(writer(daemon, reader_key).failure().empty());
    at.configure(reader_key, "identity = reader read *\n");
    daemon.reload(at);
    assert_non_null(std::strstr(writer(daemon).failure().c_str(), "unknown identity 'writer'"));
    writer reader(daemon, reader_key);
    assert_int_equal(status_of(reader.state()), status::success);
    assert_int_equal(reader.prepare(second), status::no_access);
    // The session of the removed identity continues.
    assert_int_equal(old.commit(first, 1), status::success);
    lane.write(0, "old");
    assert_int_equal(lane.flush(0, 3), 0);
    // Each error keeps keys and rights.
    for (const auto &[keys, lines] : {std::pair(std::string("writer"), std::string()),
                 std::pair(rpmemd_key + reader_key, std::string("identity = reader\n"))}) {
        at.configure(keys, lines);
        daemon.reload(at);
        assert_non_null(std::strstr(at.read("log").c_str(), "SIGHUP: keys and rights of clients are unchanged: "));
        assert_false(writer(daemon).failure().empty());
        assert_int_equal(writer(daemon, reader_key).prepare(second), status::no_access);
    }
    at.configure(rpmemd_key + reader_key, "");
    daemon.reload(at);
    assert_int_equal(writer(daemon, reader_key).prepare(second), status::success);
    assert_true(writer(daemon).failure().empty());
    assert_int_equal(old.commit(first, 2), status::fenced);
}

// Only a record with a new point, of a writer that had attached, is a point: the first record of a writer and that of a
// target that returns can contain a point whose data has changed since.
FIXTURE_TEST(with_promise, only_a_new_point_is_read)
{
    writer reader(daemon), late(daemon);
    test_lane lane = connect_lane(w.attach(first));
    assert_int_equal(status_of(reader.read(false)), status::fatal); // not in sync yet
    w.commit(first, 1, 5);
    lane.write(0, "half");
    assert_false(reader.read(false).image().is_complete());
    w.commit(first, 2, 5);
    assert_false(reader.read(false).image().is_complete());
    lane.write(4096, "whole");
    // The daemon skips a point whose image takes longer than 100 ms, which happens on a busy machine.
    constexpr std::uint64_t max_versions = 100;
    replica::wire::image taken;
    std::uint64_t version = 2;
    while (!taken.is_complete() && version < max_versions) {
        lane.write(0, "half");
        w.commit(first, ++version, 6);
        lane.write(0, "next");
        taken = reader.read(false).image();
    }
    assert_true(taken.is_complete() && taken.is_consistent() && taken.record().mark() == 6 &&
                taken.record().version() == version);
    const replica::wire::region image = reader.attach_reader().region();
    {
        test_lane reading(image, 0, token_of(image));
        assert_true(reading.read(0, 4) == "half" && reading.read(4096, 5) == "whole");
    }
    // The writer connects again, as to a target that returns. Its record contains an earlier point.
    assert_false(late.read(false).image().is_complete());
    writer again(daemon);
    again.prepare(first);
    again.attach(first);
    again.commit(first, ++version, 7);
    assert_false(late.read(false).image().is_complete());
    for (taken.Clear(); !taken.is_complete() && version < 2 * max_versions; taken = late.read(false).image())
        again.commit(first, ++version, 8);
    assert_int_equal(taken.record().mark(), 8);
}

// The key of a reader reads its image only, and changes neither that nor the copy.
FIXTURE_TEST(with_promise, a_reader_cannot_write)
{
    writer reader(daemon);
    test_lane lane = connect_lane(w.attach(first));
    w.commit(first, 1);
    lane.write(0, "mirrored");
    assert_int_equal(status_of(reader.attach_reader()), status::bad_config); // no image yet
    const replica::mirror_state before = replica::from_wire(w.state().state());
    const replica::wire::image taken = reader.read(true).image();
    assert_true(taken.is_complete() && !taken.is_consistent());
    const replica::response attached = reader.attach_reader();
    assert_int_equal(status_of(attached), status::success);
    assert_int_equal(status_of(reader.attach_reader()), status::bad_config);
    // A modified client can treat the key as writable.
    replica::wire::region forged = attached.region();
    std::string descriptor = forged.data_descriptor();
    descriptor.back() = static_cast<char>(descriptor.back() | RPMA_MR_USAGE_WRITE_DST);
    forged.set_data_descriptor(descriptor);
    test_lane reading(forged, 0, token_of(forged));
    assert_true(reading.read(0, 8) == "mirrored");
    assert_false(reading.try_write(0, "changed!"));
    replica::request hashes = reader.about(kind::kHashImage);
    hashes.mutable_hash_image()->set_length(replica::segment_size);
    const std::string hashed = reader.ask(hashes).hashes();
    std::string expected(replica::segment_size, '\0');
    expected.replace(0, 8, "mirrored");
    assert_true(hashed == replica::bytes_of(replica::hash_segment(std::as_bytes(std::span(expected)))));
    assert_true(at.read("p0").substr(0, 8) == "mirrored");
    assert_true(replica::from_wire(w.state().state()) == before);
    lane.write(0, "the lane of the writer works");
    // The daemon rejects requests of a reader for the copy like those of a fenced writer.
    assert_int_equal(reader.prepare({}), status::fenced);
    assert_int_equal(reader.commit({}, 1), status::fenced);
}

FIXTURE_TEST(restartable, only_the_writer_changes_the_length)
{
    const replica::wire::region region = w->attach(first).region();
    const auto code_of = [&](std::uint64_t bytes, bool reserve, const mirror_promise &p) {
        return status_of(w->ask(writer::resize_to(bytes, reserve, p)));
    };
    assert_int_equal(code_of(2 * length, true, first), status::bad_size);
    at.write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n16M @p0\n");
    assert_int_equal(code_of(2 * length, true, second), status::fenced);
    assert_int_equal(code_of(2 * length + 1, true, first), status::bad_config);
    assert_int_equal(at.read("p0").size(), length);
    assert_int_equal(code_of(2 * length, true, first), status::success);
    assert_true(at.read("p0").size() == 2 * length && w->state().state().length() == length);
    // A lane still uses the previous mapping, which is of the same file.
    {
        test_lane lane(region, 0, token_of(region), first.epoch);
        lane.write(length - 4, "last");
        assert_int_equal(lane.flush(length - 4, 4), 0);
    }
    assert_int_equal(code_of(2 * length, false, first), status::success);
    assert_true(w->attach(first).region().size() == 2 * length);
    const std::string part = at.read("p0");
    assert_true(part.substr(length - 4, 4) == "last" && part.find_first_not_of('\0', length) == std::string::npos);
    // The parts count as unchanged. A copy that shrinks keeps them, and growth clears the bytes.
    restart();
    assert_false(has_changed_parts(state_of(w->ask(writer::about(kind::kPrepare, second)))));
    assert_int_equal(code_of(length - 4096, false, second), status::success);
    assert_true(at.read("p0").size() == 2 * length && w->state().state().length() == length - 4096);
    assert_int_equal(code_of(length, false, second), status::success);
    assert_int_equal(at.read("p0").find_first_not_of('\0'), std::string::npos);
}

// Daemons that start during its lifetime have a disk that can be stopped.
struct stopped_disk {
    stopped_disk()
    {
        // LD_PRELOAD cannot contain a path with a blank.
        std::filesystem::create_symlink(getenv("STOPPED_DISK"), files.path + "/preload.so");
        setenv("LD_PRELOAD", (files.path + "/preload.so:" + before).c_str(), 1);
        setenv("STOPPED_DISK_FILE", stopped.c_str(), 1);
    }
    ~stopped_disk() { setenv("LD_PRELOAD", before.c_str(), 1); }

    // Stops the disk during the call, and calls f when the call has reached it.
    void stop_during(const std::function<void()> &call, const std::function<void()> &f) const
    {
        files.write("stopped", "");
        {
            const std::jthread calling(call);
            for (int i = 0; i < limit_ms && !files.has("stopped.reached"); ++i)
                usleep(1000);
            assert_true(files.has("stopped.reached"));
            f();
            std::filesystem::remove(stopped);
        }
        std::filesystem::remove(stopped + ".reached");
    }

    const scratch files;
    const std::string stopped = files.path + "/stopped", before = getenv("LD_PRELOAD");
};
template<class Daemon>
struct on_stopped_disk : stopped_disk, Daemon {
};

FIXTURE_TEST(on_stopped_disk<restartable>, requests_are_served_while_a_stopped_disk_extends_parts)
{
    std::optional<writer> other(std::in_place, *daemon), third(std::in_place, *daemon);
    const replica::wire::region region = w->attach(first).region();
    std::future<status> waiting;
    // Calls f while the first writer lets the copy grow, and returns the result of the growth.
    const auto while_growing = [&](std::uint64_t bytes, const auto &f) {
        at.write("a.set", "PMEMPOOLSET\nOPTION NOHDRS\n" + std::to_string(bytes >> 20) + "M @p0\n");
        at.write("stopped", "");
        status result{};
        stop_during([&] { result = status_of(w->ask(writer::resize_to(bytes, false, first))); }, f);
        return result;
    };
    const auto use_copy = [&] {
        waiting = std::async(
                std::launch::async, [&] { return status_of(third->ask(writer::resize_to(2 * length, true, first))); });
        test_lane lane(region, 0, token_of(region), first.epoch);
        lane.write(length - 4, "last");
        assert_int_equal(lane.flush(length - 4, 4), 0);
        assert_int_equal(other->state().state().length(), length);
        assert_int_equal(other->commit(first, 2), status::success);
    };
    assert_int_equal(while_growing(2 * length, use_copy), status::success);
    assert_int_equal(waiting.get(), status::success);
    assert_int_equal(w->state().state().length(), 2 * length);
    const std::string part = at.read("p0");
    assert_true(part.substr(length - 4, 4) == "last" && part.find_first_not_of('\0', length) == std::string::npos);
    // A writer that lost its promise does not change the length.
    const auto fence = [&] { assert_int_equal(other->prepare(second), status::success); };
    assert_int_equal(while_growing(3 * length, fence), status::fenced);
    assert_int_equal(w->state().state().length(), 2 * length);
    assert_int_equal(other->commit(second, 1), status::success);
    assert_int_equal(status_of(other->ask(writer::resize_to(3 * length, false, second))), status::success);
    assert_int_equal(other->commit(second, 2, 0, true), status::success);
    // The parts have the stamp of the record.
    const auto restart_with = [&](std::uint64_t epoch) {
        other.reset(), third.reset();
        restart();
        return has_changed_parts(state_of(w->ask(writer::about(kind::kPrepare, {epoch, epoch}))));
    };
    assert_false(restart_with(3));
    replace_part();
    assert_true(restart_with(4));
}

FIXTURE_TEST(on_stopped_disk<running_daemon>, a_request_that_hangs_holds_no_other_session)
{
    writer w(daemon), other(daemon);
    status created{};
    stop_during([&] { created = status_of(w.create()); },
            [&] { assert_int_equal(status_of(other.state()), status::busy); });
    assert_int_equal(created, status::success);
    assert_int_equal(status_of(other.state()), status::success);
}

TEST(a_damaged_state_is_no_copy)
{
    const place at;
    {
        standing_daemon daemon(at);
        writer(daemon).create();
        assert_int_equal(daemon.end(), 0);
    }
    at.write("a.set.mirror", std::string(8192, 'x'));
    const standing_daemon daemon(at);
    writer w(daemon);
    assert_int_equal(status_of(w.state()), status::fatal);
    assert_int_equal(w.prepare(first), status::fatal);
    assert_int_equal(status_of(w.create()), status::fatal);
}

} // namespace

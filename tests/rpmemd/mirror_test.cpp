// SPDX-License-Identifier: BSD-3-Clause
// Copies of mirrored sets: which writer has access, the effect of earlier writers, and the state that survives the
// daemon. Runs on softrdma, like the daemon.
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "mirror_client.hpp"
#include "segments.hpp"

namespace
{

constexpr mirror_promise first{1, 100}, second{2, 200};

void a_set_is_created_once(void **)
{
    const place at;
    standing_daemon daemon(at);
    writer w(daemon);
    assert_int_equal(w.state().status, status::missing);
    assert_int_equal(w.prepare(first), status::missing);
    const replica::answer created = w.create();
    assert_int_equal(created.status, status::success);
    assert_true(created.mirror.length == length && created.mirror.copy == 1 && created.mirror.promised.epoch == 0);
    assert_int_equal(w.create().status, status::exists);
    assert_true(w.state().mirror == created.mirror);
    assert_true(at.has("p0") && at.has("a.set.mirror"));
    replica::request other = w.about(request_type::mirror_prepare, first);
    other.mirror.set.fill(std::byte{0x78});
    assert_int_equal(w.ask(other).status, status::bad_config);
    other = w.about(request_type::mirror_create);
    other.mirror.set_name.assign("../a.set");
    assert_int_equal(w.ask(other).status, status::bad_name);
    assert_int_equal(w.ask(pool_request(true, "a.set", length)).status, status::unsupported);
    assert_int_equal(daemon.end(), 0);
}

void what_a_writer_flushes_is_there(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer w(daemon);
    w.create();
    assert_int_equal(w.attach(first).status, status::fenced); // not promised yet
    assert_int_equal(w.commit(first, 1), status::fenced);
    assert_int_equal(w.prepare(first), status::success);
    assert_int_equal(w.prepare(first), status::success); // the response may have been lost
    assert_int_equal(w.commit(first, 1), status::success);
    assert_int_equal(w.commit(first, 1), status::success);
    const replica::answer attached = w.attach(first);
    assert_int_equal(attached.status, status::success);
    assert_true(attached.session.pool_size == length && !attached.session.has_header && attached.session.lanes == 1);
    test_lane lane(attached.session, 0, attached.session.token, first.epoch);
    assert_true(lane.is_connected());
    lane.write(4096, "mirrored");
    assert_int_equal(lane.flush(4096, 8), 0);
    assert_int_equal(lane.request(replica::lane_request_kind::deep_flush, {{4096, 8}}), 0);
    assert_string_equal(at.read("p0").substr(4096, 8).c_str(), "mirrored");
}

void only_the_epoch_of_the_promise_gets_a_lane(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer w(daemon);
    w.create();
    w.prepare(second);
    const replica::session_answer session = w.attach(second).session;
    for (const std::uint64_t epoch : {0U, 1U, 3U}) {
        const test_lane lane(session, 0, session.token, epoch);
        assert_false(lane.is_connected());
    }
    const test_lane lane(session, 0, session.token, 2);
    assert_true(lane.is_connected());
}

void a_higher_epoch_fences_the_lower_one(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer old(daemon), now(daemon);
    old.create();
    old.prepare(first);
    old.commit(first, 1);
    const replica::session_answer session = old.attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    lane.write(0, "before");
    assert_int_equal(now.prepare({1, 200}), status::fenced); // the epoch was already acquired
    assert_int_equal(lane.flush(0, 6), 0);
    const replica::answer prepared = now.ask(now.about(request_type::mirror_prepare, second));
    assert_int_equal(prepared.status, status::success);
    assert_true(prepared.mirror.promised == second && prepared.mirror.committed.epoch == 1);
    // All later attempts of the old writer fail.
    assert_int_not_equal(lane.flush(0, 6), 0);
    assert_int_equal(old.commit(first, 2), status::fenced);
    assert_int_equal(old.attach(first).status, status::fenced);
    assert_int_equal(old.prepare(first), status::fenced);
    const test_lane again(session, 0, session.token, first.epoch);
    assert_false(again.is_connected());
    const replica::session_answer next = now.attach(second).session;
    test_lane good(next, 0, next.token, second.epoch);
    good.write(0, "after!");
    assert_int_equal(good.flush(0, 6), 0);
    assert_string_equal(at.read("p0").substr(0, 6).c_str(), "after!");
}

void segments_are_hashed_where_they_are(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer w(daemon);
    w.create();
    w.prepare(first);
    replica::request asked = w.about(request_type::mirror_hash, first);
    asked.mirror.offset = replica::segment_size;
    asked.mirror.length = 2 * replica::segment_size + 10;
    assert_int_equal(w.ask(asked).status, status::bad_config); // a set cannot be opened without lanes
    const replica::session_answer session = w.attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    lane.write(2 * replica::segment_size, "other");
    const replica::answer hashed = w.ask(asked);
    assert_int_equal(hashed.status, status::success);
    assert_int_equal(hashed.hashes.count, 3);
    const std::string bytes = at.read("p0");
    for (std::size_t i = 0; i < 3; ++i) {
        const std::string segment = bytes.substr((i + 1) * replica::segment_size, i < 2 ? replica::segment_size : 10);
        assert_true(hashed.hashes.hashes[i] == replica::hash_segment(std::as_bytes(std::span(segment))));
    }
    assert_true(hashed.hashes.hashes[0] != hashed.hashes.hashes[1]);
    asked.mirror.offset = length;
    asked.mirror.length = 1;
    assert_int_equal(w.ask(asked).status, status::bad_config);
    asked.mirror.promise = second;
    assert_int_equal(w.ask(asked).status, status::fenced);
}

std::uint64_t store_cursor(writer &w)
{
    replica::request asked = w.about(request_type::mirror_cursor, first);
    asked.mirror.offset = 4 << 20;
    return w.ask(asked).mirror.cursor;
}

void a_cursor_is_of_one_epoch_and_one_daemon(void **)
{
    const place at;
    {
        const standing_daemon daemon(at);
        writer w(daemon);
        w.create();
        w.prepare(first);
        assert_int_equal(store_cursor(w), 4 << 20);
        w.prepare(first);
        assert_int_equal(w.state().mirror.cursor, 4 << 20);
    }
    const standing_daemon daemon(at);
    writer w(daemon);
    w.prepare(first);
    assert_int_equal(w.state().mirror.cursor, 0);
    assert_int_equal(store_cursor(w), 4 << 20);
    w.prepare(second);
    assert_int_equal(w.state().mirror.cursor, 0);
    assert_int_equal(w.ask(w.about(request_type::mirror_cursor, first)).status, status::fenced);
}

// The bit of the copy stays removed until the next record, because the record might not be the newest one.
void replaced_parts_are_reported_until_a_resync(void **)
{
    const place at;
    const std::string part = at.path + "/p0";
    std::optional<standing_daemon> daemon(std::in_place, at);
    std::optional<writer> w(std::in_place, *daemon);
    w->create();
    w->prepare(first);
    w->commit(first, 1);
    std::uint64_t epoch = first.epoch;
    const auto restart = [&](bool replaces) {
        w.reset();
        daemon.reset();
        if (replaces) {
            std::filesystem::copy_file(part, part + ".backup");
            std::filesystem::rename(part + ".backup", part);
        }
        daemon.emplace(at);
        w.emplace(*daemon);
        ++epoch;
        return w->ask(w->about(request_type::mirror_prepare, {epoch, epoch})).mirror;
    };
    assert_false(has_changed_parts(restart(false)));
    for (int times = 0; times < 2; ++times) {
        assert_true(has_changed_parts(restart(true)));
        assert_true(has_changed_parts(restart(false)));
        assert_int_equal(w->attach({epoch, epoch}).status, status::success);
        replica::request end = w->about(request_type::mirror_cursor, {epoch, epoch});
        for (const std::uint64_t offset : {length / 2, length}) {
            end.mirror.offset = offset;
            const replica::mirror_state s = w->ask(end).mirror;
            assert_true(s.committed.in_sync == 1 && has_changed_parts(s) == (offset != length));
        }
        assert_false(has_changed_parts(restart(false)));
    }
    assert_int_equal(w->commit({epoch, epoch}, 1), status::success);
    const replica::mirror_state s = w->state().mirror;
    assert_true(s.committed.in_sync == 3 && !s.resynced);
}

// The old writer continues to write; after the new one has its response, the content no longer changes.
void nothing_is_written_after_the_promise(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer old(daemon), now(daemon);
    old.create();
    for (std::uint64_t epoch = 1; epoch < 21; epoch += 2) {
        assert_int_equal(old.prepare({epoch, 100}), status::success);
        const replica::session_answer session = old.attach({epoch, 100}).session;
        test_lane lane(session, 0, session.token, epoch);
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

void a_crash_forgets_no_promise(void **)
{
    const place at;
    {
        const standing_daemon daemon(at);
        writer w(daemon);
        w.create();
        w.prepare(second);
        w.commit(second, 4);
        w.prepare({3, 300});
    }
    const standing_daemon daemon(at);
    writer w(daemon);
    const replica::mirror_state kept = w.state().mirror;
    assert_true(kept.promised == (mirror_promise{3, 300}));
    assert_true(kept.committed.epoch == 2 && kept.committed.version == 4);
    assert_int_equal(w.prepare(second), status::fenced);
    assert_int_equal(w.commit(second, 5), status::fenced);
    assert_int_equal(w.attach({3, 300}).status, status::success);
}

void lanes_go_with_their_writer(void **)
{
    const place at;
    const standing_daemon daemon(at);
    std::optional<writer> w(std::in_place, daemon);
    w->create();
    w->prepare(first);
    const replica::session_answer session = w->attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    assert_true(lane.is_connected());
    w.reset();
    assert_true(lane.is_gone());
    // It may reconnect, because it has the promise.
    writer back(daemon);
    assert_int_equal(back.attach(first).status, status::success);
}

// Its promise would take the set from the live writer.
void what_a_dead_writer_asked_for_is_not_done(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer living(daemon);
    living.create();
    living.prepare(first);
    const replica::session_answer session = living.attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    writer dead(daemon);
    daemon.stop();
    dead.leave_with(dead.about(request_type::mirror_prepare, second));
    daemon.go_on();
    // The delay gives its session time to process the message.
    usleep(100'000);
    assert_true(living.state().mirror.promised == first);
    lane.write(0, "living");
    assert_int_equal(lane.flush(0, 6), 0);
    assert_int_equal(writer(daemon).prepare({second.epoch, second.writer + 1}), status::success);
}

void strangers_change_nothing(void **)
{
    const place at;
    const standing_daemon daemon(at);
    replica::mirror_key wrong = right_key();
    wrong[31] ^= std::byte{1};
    assert_false(writer(daemon, false).prove(wrong));
    replica::answer a;
    writer impatient(daemon, false);
    assert_false(impatient.send(impatient.about(request_type::mirror_create), a));
    writer unasked(daemon, false);
    replica::request r;
    r.type = request_type::mirror_prove;
    r.proof = replica::prove_key(right_key(), {});
    assert_false(unasked.send(r, a)); // no challenge was requested
    assert_false(at.has("a.set.mirror"));
    assert_int_equal(writer(daemon).state().status, status::missing);
}

// Only a record with a new point, of a writer that had attached, is a point: the first record of a writer and that of a
// target that returns can contain a point whose data has changed since.
void only_a_new_point_is_read(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer w(daemon), reader(daemon), late(daemon);
    w.create();
    w.prepare(first);
    const replica::session_answer session = w.attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    assert_int_equal(reader.read(replica::read_point).status, status::fatal); // not in sync yet
    w.commit(first, 1, 5);
    lane.write(0, "half");
    assert_int_equal(reader.read(replica::read_point).mirror.cursor, 0);
    w.commit(first, 2, 5);
    assert_int_equal(reader.read(replica::read_point).mirror.cursor, 0);
    lane.write(4096, "whole");
    w.commit(first, 3, 6);
    lane.write(0, "next");
    const replica::mirror_state taken = reader.read(replica::read_point).mirror;
    assert_true(taken.cursor == 1 && taken.resynced && taken.committed.mark == 6 && taken.committed.version == 3);
    const replica::session_answer image = reader.attach({}).session;
    {
        test_lane reading(image, 0, image.token);
        assert_true(reading.read(0, 4) == "half" && reading.read(4096, 5) == "whole");
    }
    // The writer attaches again, as a target does that returns. Its record contains an earlier point.
    assert_int_equal(late.read(replica::read_point).mirror.cursor, 0);
    w.attach(first);
    w.commit(first, 4, 7);
    assert_int_equal(late.read(replica::read_point).mirror.cursor, 0);
    w.commit(first, 5, 8);
    assert_int_equal(late.read(replica::read_point).mirror.committed.mark, 8);
}

// The key of a reader reads its image only, and changes neither that nor the copy.
void a_reader_cannot_write(void **)
{
    const place at;
    const standing_daemon daemon(at);
    writer w(daemon), reader(daemon);
    w.create();
    w.prepare(first);
    const replica::session_answer session = w.attach(first).session;
    test_lane lane(session, 0, session.token, first.epoch);
    w.commit(first, 1);
    lane.write(0, "mirrored");
    assert_int_equal(reader.attach({}).status, status::bad_config); // no image yet
    const replica::mirror_state before = w.state().mirror;
    const replica::mirror_state taken = reader.read(replica::read_any_time).mirror;
    assert_true(taken.cursor == 1 && !taken.resynced);
    const replica::answer attached = reader.attach({});
    assert_int_equal(attached.status, status::success);
    assert_int_equal(reader.attach({}).status, status::bad_config);
    // A client of its own can treat the key as writable.
    replica::session_answer forged = attached.session;
    std::string descriptor(forged.data_region.view());
    descriptor.back() = static_cast<char>(descriptor.back() | RPMA_MR_USAGE_WRITE_DST);
    forged.data_region.assign(descriptor);
    test_lane reading(forged, 0, forged.token);
    assert_true(reading.read(0, 8) == "mirrored");
    assert_false(reading.try_write(0, "changed!"));
    replica::request hashes = reader.about(request_type::mirror_hash);
    hashes.mirror.length = replica::segment_size;
    const replica::answer hashed = reader.ask(hashes);
    std::string expected(replica::segment_size, '\0');
    expected.replace(0, 8, "mirrored");
    assert_true(hashed.hashes.count == 1 &&
                hashed.hashes.hashes[0] == replica::hash_segment(std::as_bytes(std::span(expected))));
    assert_true(at.read("p0").substr(0, 8) == "mirrored");
    assert_true(w.state().mirror == before);
    lane.write(0, "the lane of the writer works");
    // Requests of a reader for the copy are those of a fenced writer.
    assert_int_equal(reader.prepare({}), status::fenced);
    assert_int_equal(reader.commit({}, 1), status::fenced);
}

void a_damaged_state_is_no_copy(void **)
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
    assert_int_equal(w.state().status, status::fatal);
    assert_int_equal(w.prepare(first), status::fatal);
    assert_int_equal(w.create().status, status::fatal);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(a_set_is_created_once),
            cmocka_unit_test(what_a_writer_flushes_is_there),
            cmocka_unit_test(only_the_epoch_of_the_promise_gets_a_lane),
            cmocka_unit_test(a_higher_epoch_fences_the_lower_one),
            cmocka_unit_test(segments_are_hashed_where_they_are),
            cmocka_unit_test(a_cursor_is_of_one_epoch_and_one_daemon),
            cmocka_unit_test(replaced_parts_are_reported_until_a_resync),
            cmocka_unit_test(nothing_is_written_after_the_promise),
            cmocka_unit_test(a_crash_forgets_no_promise),
            cmocka_unit_test(lanes_go_with_their_writer),
            cmocka_unit_test(what_a_dead_writer_asked_for_is_not_done),
            cmocka_unit_test(strangers_change_nothing),
            cmocka_unit_test(only_a_new_point_is_read),
            cmocka_unit_test(a_reader_cannot_write),
            cmocka_unit_test(a_damaged_state_is_no_copy),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

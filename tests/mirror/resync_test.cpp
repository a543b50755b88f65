// SPDX-License-Identifier: BSD-3-Clause
// Targets that return and are resynchronized while the program continues to write. The targets are real daemons.
#include "fixture.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <utility>

namespace
{

FIXTURE_TEST(open_set<two>, a_target_that_returns_is_resynchronized)
{
    m.put(0, "first");
    b.kill();
    m.put(5 * megabyte, "missed");
    assert_int_equal(rpma_mirror_resync(m.get(), 2, nullptr), RPMA_MIRROR_E_CONNECTION);
    assert_int_equal(rpma_mirror_resync(m.get(), 9, nullptr), RPMA_MIRROR_E_NOT_FOUND);
    b.start();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    assert_true(b.bytes(5 * megabyte, 6) == "missed");
    m.expect(RPMA_MIRROR_EVENT_IN_SYNC);
    assert_true(m.state().in_sync == 7 && m.state().copies[2].state == RPMA_MIRROR_COPY_IN_SYNC);
    m.put(6 * megabyte, "waited");
    assert_true(b.bytes(6 * megabyte, 6) == "waited");
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr)); // it is in sync
    // Target a is no longer needed.
    a.kill();
    m.put(0, "second");
    assert_true(b.bytes(0, 6) == "second");
}

FIXTURE_TEST(open_set<two>, a_resync_is_paused_and_continued)
{
    b.kill();
    m.put(0, "one");
    m.put(7 * megabyte, "two");
    b.start();
    bool pauses = true;
    rpma_mirror_progress last{};
    auto pause = [&](const rpma_mirror_progress &p) {
        last = p;
        return std::exchange(pauses, false) ? 1 : 0;
    };
    const rpma_mirror_resync_options options = with_progress(pause);
    assert_int_equal(rpma_mirror_resync(m.get(), 2, &options), RPMA_MIRROR_E_CANCELED);
    assert_true(last.compared_bytes == 3 * megabyte && last.total_bytes == length);
    assert_int_equal(m.state().in_sync, 3);
    // The offset is below the cursor. The target does not receive the data yet.
    m.put(100'000, "between");
    assert_ok(rpma_mirror_resync(m.get(), 2, &options));
    assert_true(last.total_bytes < length);
    assert_true(b.bytes(0, 3) == "one" && b.bytes(7 * megabyte, 3) == "two");
    assert_true(b.bytes(100'000, 7) == "between");
    assert_int_equal(m.state().in_sync, 7);
}

// Two batches are compared at once. If both differ completely, the next ones are sent without a comparison. The data
// sent unnecessarily is at most as much as the data that differed.
FIXTURE_TEST(open_set<two>, completely_different_ranges_are_sent_unchecked)
{
    std::uint64_t sent = 0;
    const struct {
        std::uint64_t changed, sent;
    } cases[] = {{3 * megabyte, 3 * megabyte}, {6 * megabyte, length}, {length, length}, {2 * megabyte, 2 * megabyte}};
    for (const auto &[changed, expected] : cases) {
        b.kill();
        for (std::uint64_t at = 0; at < changed; at += 64)
            ++m.address()[at];
        assert_ok(m.flush(0, length));
        m.expect(RPMA_MIRROR_EVENT_EVICTED);
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_true(b.bytes(0, length) == std::string(m.address(), length));
        const std::uint64_t so_far = m.statistics().sent_bytes;
        assert_int_equal(so_far - sent, expected);
        sent = so_far;
    }
}

// A target that returns in the same epoch is compared only where flushes did not reach it, unless its daemon restarted.
FIXTURE_TEST(over_tcp<open_set<two>>, a_return_in_the_same_epoch_copies_only_changes, "timeouts 2000 60000\n")
{
    m.put(megabyte, "before");
    rpma_mirror_statistics last = m.statistics();
    const auto expect = [&](std::uint64_t bytes) {
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_true(b.bytes(0, length) == std::string(m.address(), length));
        const rpma_mirror_statistics now = m.statistics();
        assert_int_equal(now.compared_bytes - last.compared_bytes, bytes);
        assert_true(now.sent_bytes - last.sent_bytes <= bytes);
        last = now;
    };
    constexpr std::uint64_t segment = 64 * 1024;
    for (int round = 0; round < 2; ++round) {
        b.stop();
        m.put(0, "posted " + std::to_string(round));
        m.expect(RPMA_MIRROR_EVENT_EVICTED);
        m.put(5 * megabyte, "missed " + std::to_string(round));
        m.put(segment * 17 - 2, "missed in two segments " + std::to_string(round));
        b.resume();
        expect(4 * segment);
    }
    b.kill();
    m.put(0, "missed again");
    b.start();
    expect(length);
}

// Interrupts after the first batch, when the next ones are in flight.
struct interruption {
    const target &of;
    bool stopped;
    std::uint64_t done = 0;
    bool over = false;

    int operator()(const rpma_mirror_progress &progress)
    {
        done = std::max<std::uint64_t>(done, progress.compared_bytes);
        if (std::exchange(over, true))
            return 0;
        if (stopped)
            of.stop();
        else
            kill(of.pid(), SIGKILL);
        return 0;
    }
};

// One of two or three targets is lost while it is resynchronized or verified. The others continue, and it returns. The
// set is longer than the part that is requested in advance.
void lose_a_target_in_the_middle(bool stopped)
{
    for (const unsigned count : {2U, 3U}) {
        std::vector<target> targets(count);
        std::vector<const target *> all;
        const std::uint64_t long_set = 24 * megabyte;
        for (const target &t : targets) {
            t.list_part("24M");
            all.push_back(&t);
        }
        target &lost = targets.back();
        const host h;
        const auto describe = [&](const std::string &times) {
            cfg_ptr created = h.cfg(all, times);
            assert_ok(rpma_mirror_cfg_set_local_copy(
                    created.get(), 0, (h.where.path + "/home").c_str(), long_set, nullptr));
            return created;
        };
        assert_ok(rpma_mirror_create(describe("").get()));
        opened m(describe(stopped ? "timeouts 6000 12000\n" : "").get());
        const std::uint32_t whole = m.state().in_sync, rest = whole & ~(1U << count);
        const auto come_back = [&] {
            m.put(megabyte, "meanwhile");
            assert_int_equal(m.state().in_sync, rest);
            if (stopped) {
                lost.resume();
            } else {
                lost.kill(); // the call waits for its end
                lost.start();
            }
            assert_ok(rpma_mirror_resync(m.get(), count, nullptr));
            assert_int_equal(m.state().in_sync, whole);
            assert_true(lost.bytes(0, long_set) == std::string(m.address(), long_set));
        };
        lost.kill();
        m.put(0, "one");
        m.put(20 * megabyte, "two");
        lost.start();
        interruption i{lost, stopped};
        const rpma_mirror_resync_options options = with_progress(i);
        const int expected = stopped ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_CONNECTION;
        assert_int_equal(rpma_mirror_resync(m.get(), count, &options), expected);
        assert_true(i.done < long_set);
        come_back();
        if (count > 2)
            continue;
        i.over = false;
        auto report = sized<rpma_mirror_verify_report>();
        assert_int_equal(rpma_mirror_verify(m.get(), count, &options, &report), expected);
        come_back();
    }
}

TEST(a_target_is_killed_in_the_middle)
{
    lose_a_target_in_the_middle(false);
}

TEST(a_target_is_stopped_in_the_middle)
{
    needs_tcp();
    lose_a_target_in_the_middle(true);
}

// The resync waits for the target, while flushes continue on the connection. Five flushes are below its limit.
FIXTURE_TEST(over_tcp<open_set<two>>, a_target_that_falls_silent_in_a_resync_delays_no_flush, "timeouts 3000 6000\n")
{
    b.kill();
    m.put(0, std::string(length, 'x')); // most of it is sent without a comparison
    b.start();
    interruption i{b, true};
    const rpma_mirror_resync_options options = with_progress(i);
    std::thread resyncing([&] { assert_int_equal(rpma_mirror_resync(m.get(), 2, &options), RPMA_MIRROR_E_TIMEOUT); });
    m.expect(RPMA_MIRROR_EVENT_RESYNC_STARTED);
    using clock = std::chrono::steady_clock;
    clock::duration longest{};
    for (int flushes = 0; flushes < 5; ++flushes) {
        usleep(300'000);
        const auto begin = clock::now();
        m.put(megabyte, "meanwhile");
        longest = std::max(longest, clock::now() - begin);
    }
    resyncing.join();
    b.resume();
    assert_true(longest < std::chrono::seconds(1));
}

// The library resynchronizes targets that return, even while another target is silent.
FIXTURE_TEST(open_set<three>, a_target_returns_without_a_call, "background-resync on\ntimeouts 2000 60000\n")
{
    for (int round = 0; round < 2; ++round) {
        b.kill();
        if (uses_tcp() && round == 0)
            c.stop();
        m.put(megabyte, "missed " + std::to_string(round));
        m.expect(RPMA_MIRROR_EVENT_EVICTED);
        b.start();
        m.expect(RPMA_MIRROR_EVENT_IN_SYNC);
        assert_true((m.state().in_sync & 7) == 7);
        assert_true(b.bytes(0, length) == std::string(m.address(), length));
        if (uses_tcp() && round == 0) {
            assert_int_equal(m.state().in_sync, 7);
            c.resume();
            m.expect(RPMA_MIRROR_EVENT_IN_SYNC);
        }
    }
    assert_int_equal(m.state().in_sync, 15);
    m.close();
}

// Each stop is longer than the limit, and shorter than a timeout.
void put_while_stopped(const opened &m, const target &slow)
{
    const std::jthread later = stop_for(400, slow);
    m.put(0, "late");
}

FIXTURE_TEST(over_tcp<open_set<two>>, a_slow_target_is_evicted_unless_it_is_the_last,
        "slow-after 3 200\nbackground-resync on 0\n")
{
    put_while_stopped(m, b);
    put_while_stopped(m, b);
    m.put(0, "in time"); // the count is 0 again
    put_while_stopped(m, b);
    put_while_stopped(m, b);
    assert_int_equal(m.state().in_sync, 7);
    assert_int_equal(m.statistics().slow_evictions, 0);
    put_while_stopped(m, b);
    const rpma_mirror_event evicted = m.expect(RPMA_MIRROR_EVENT_EVICTED);
    assert_true(evicted.copy == 2 && evicted.error.code == RPMA_MIRROR_E_TIMEOUT);
    m.expect(RPMA_MIRROR_EVENT_IN_SYNC);
    assert_int_equal(m.state().in_sync, 7);
    rpma_mirror_statistics s = m.statistics();
    assert_true(s.slow_evictions == 1 && s.late_confirmations >= 5 && s.evictions == 1);
    a.kill();
    m.put(0, "without a");
    for (int times = 0; times < 4; ++times)
        put_while_stopped(m, b);
    s = m.statistics();
    assert_true(s.slow_evictions == 1 && s.late_confirmations >= 9);
    assert_true((m.state().in_sync & 5) == 5);
}

// At its own rate, the background resync would take two minutes.
FIXTURE_TEST(open_set<two>, a_call_takes_over_from_the_background, "background-resync on 64K\n")
{
    const auto begin = [&] {
        b.kill();
        m.put(0, "missed");
        b.start();
        m.expect(RPMA_MIRROR_EVENT_RESYNC_STARTED);
    };
    begin();
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    assert_int_equal(m.state().in_sync, 7);
    begin();
    assert_ok(rpma_mirror_remove_target(m.get(), 2));
    assert_int_equal(m.state().members, 3);
    a.kill();
    b.kill();
}

FIXTURE_TEST(open_set<two>, a_set_is_closed_during_a_background_resync, "background-resync on 64K\n")
{
    b.kill();
    m.put(0, "missed");
    b.start();
    m.expect(RPMA_MIRROR_EVENT_RESYNC_STARTED);
    m.close();
}

} // namespace

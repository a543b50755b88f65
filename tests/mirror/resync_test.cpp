// SPDX-License-Identifier: BSD-3-Clause
// Targets that return and are resynchronized while the program continues to write. The targets are real.
#include "fixture.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

namespace
{

void a_target_that_returns_is_brought_level(void **)
{
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
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
    // Now the other one may go.
    a.kill();
    m.put(0, "second");
    assert_true(b.bytes(0, 6) == "second");
}

struct pausing {
    int left = 0;
    std::uint64_t done = 0;
    std::uint64_t total = 0;
};

int pause_after(void *context, const rpma_mirror_progress *progress)
{
    auto *const p = static_cast<pausing *>(context);
    p->done = progress->compared_bytes;
    p->total = progress->total_bytes;
    return --p->left == 0;
}

void a_resync_is_paused_and_goes_on(void **)
{
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
    b.kill();
    m.put(0, "one");
    m.put(7 * megabyte, "two");
    b.start();
    pausing p{1};
    rpma_mirror_resync_options options{};
    options.size = sizeof(options);
    options.progress = pause_after;
    options.context = &p;
    assert_int_equal(rpma_mirror_resync(m.get(), 2, &options), RPMA_MIRROR_E_CANCELED);
    assert_true(p.done == 3 * megabyte && p.total == length);
    assert_int_equal(m.state().in_sync, 3);
    // Below the cursor, while the target does not get it.
    m.put(100'000, "between");
    p.left = 0;
    assert_ok(rpma_mirror_resync(m.get(), 2, &options));
    assert_true(p.total < length);
    assert_true(b.bytes(0, 3) == "one" && b.bytes(7 * megabyte, 3) == "two");
    assert_true(b.bytes(100'000, 7) == "between");
    assert_int_equal(m.state().in_sync, 7);
}

rpma_mirror_statistics statistics_of(const opened &m)
{
    rpma_mirror_statistics s{};
    s.size = sizeof(s);
    assert_ok(rpma_mirror_get_statistics(m.get(), &s));
    return s;
}

// Two batches are compared together. If both differed completely, the next ones are sent without a comparison. The data
// sent unnecessarily is at most as much as the data that differed.
void what_differs_everywhere_is_sent_without_a_look(void **)
{
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b});
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
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
        const std::uint64_t so_far = statistics_of(m).sent_bytes;
        assert_int_equal(so_far - sent, expected);
        sent = so_far;
    }
}

// In the epoch in which it left, a target is compared only where flushes did not reach it, unless its daemon restarted.
void a_return_in_the_same_epoch_costs_what_changed(void **)
{
    // On one host the writer works in the memory of a target that sleeps.
    if (getenv("SOFTRDMA_TRANSPORT") == nullptr)
        skip();
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b}, "timeouts 2000 60000\n");
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
    m.put(megabyte, "before");
    rpma_mirror_statistics last = statistics_of(m);
    const auto expect = [&](std::uint64_t bytes) {
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_true(b.bytes(0, length) == std::string(m.address(), length));
        const rpma_mirror_statistics now = statistics_of(m);
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
        b.go_on();
        expect(4 * segment);
    }
    b.kill();
    m.put(0, "missed again");
    b.start();
    expect(length);
}

struct interruption {
    const target &of;
    bool stopped;
    std::uint64_t done = 0;
    bool over = false;
};

// Interrupts after the first batch, when the next ones are in flight.
int interrupt(void *context, const rpma_mirror_progress *progress)
{
    auto *const i = static_cast<interruption *>(context);
    i->done = std::max<std::uint64_t>(i->done, progress->compared_bytes);
    if (std::exchange(i->over, true))
        return 0;
    if (i->stopped)
        i->of.stop();
    else
        kill(i->of.pid(), SIGKILL);
    return 0;
}

// One of two or three targets is lost while it is resynchronized or verified. The others continue, and it returns. The
// set is longer than the part that is requested in advance.
void lose_a_target_in_the_middle(bool stopped)
{
    for (const unsigned count : {2U, 3U}) {
        std::vector<target> targets(count);
        std::vector<const target *> all;
        const std::uint64_t long_set = 24 * megabyte;
        for (const target &t : targets) {
            t.where().write("set", "PMEMPOOLSET\nOPTION NOHDRS\n24M " + t.where().path + "/part\n");
            all.push_back(&t);
        }
        target &lost = targets.back();
        const host h;
        const auto describe = [&](const std::string &times) {
            cfg_ptr made = h.cfg(all, times);
            assert_ok(
                    rpma_mirror_cfg_set_local_copy(made.get(), 0, (h.where.path + "/home").c_str(), long_set, nullptr));
            return made;
        };
        assert_ok(rpma_mirror_create(describe("").get()));
        opened m(describe(stopped ? "timeouts 6000 12000\n" : "").get());
        const std::uint32_t whole = m.state().in_sync, rest = whole & ~(1U << count);
        const auto come_back = [&] {
            m.put(megabyte, "meanwhile");
            assert_int_equal(m.state().in_sync, rest);
            if (stopped) {
                lost.go_on();
            } else {
                lost.kill(); // it is waited for
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
        rpma_mirror_resync_options options{};
        options.size = sizeof(options);
        options.progress = interrupt;
        options.context = &i;
        const int expected = stopped ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_CONNECTION;
        assert_int_equal(rpma_mirror_resync(m.get(), count, &options), expected);
        assert_true(i.done < long_set);
        come_back();
        if (count > 2)
            continue;
        i.over = false;
        rpma_mirror_verify_report report{};
        report.size = sizeof(report);
        assert_int_equal(rpma_mirror_verify(m.get(), count, &options, &report), expected);
        come_back();
    }
}

void a_target_is_killed_in_the_middle(void **)
{
    lose_a_target_in_the_middle(false);
}

void a_target_is_stopped_in_the_middle(void **)
{
    // On one host the writer works in the memory of a target that sleeps.
    if (getenv("SOFTRDMA_TRANSPORT") == nullptr)
        skip();
    lose_a_target_in_the_middle(true);
}

// The program continues to write on two lanes during the resync; at the end the copies are equal.
void a_resync_beside_flushes_loses_nothing(void **)
{
    target a, b;
    const host h;
    const cfg_ptr cfg = h.cfg({&a, &b}, "lanes 2\n");
    assert_ok(rpma_mirror_create(cfg.get()));
    opened m(cfg.get());
    std::atomic<bool> stop = false;
    std::atomic<int> failed = 0;
    std::vector<std::thread> writers;
    for (unsigned lane = 0; lane < 2; ++lane)
        writers.emplace_back([&, lane] {
            for (std::uint64_t i = 0; !stop && failed == 0; ++i) {
                const std::uint64_t at = (lane * 4 * megabyte) + i * 7919 * 64 % (4 * megabyte);
                std::memcpy(m.address() + at, &i, sizeof(i));
                failed = m.flush(at, sizeof(i), 0, lane);
            }
        });
    for (int round = 0; round < 3; ++round) {
        b.kill();
        m.expect(RPMA_MIRROR_EVENT_EVICTED);
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    }
    stop = true;
    for (std::thread &w : writers)
        w.join();
    assert_int_equal(failed.load(), 0);
    const std::string ours(m.address(), length);
    assert_true(b.bytes(0, length) == ours);
    assert_true(a.bytes(0, length) == ours);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(a_target_that_returns_is_brought_level),
            cmocka_unit_test(a_resync_is_paused_and_goes_on),
            cmocka_unit_test(what_differs_everywhere_is_sent_without_a_look),
            cmocka_unit_test(a_return_in_the_same_epoch_costs_what_changed),
            cmocka_unit_test(a_target_is_killed_in_the_middle),
            cmocka_unit_test(a_target_is_stopped_in_the_middle),
            cmocka_unit_test(a_resync_beside_flushes_loses_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

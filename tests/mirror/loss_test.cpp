// SPDX-License-Identifier: BSD-3-Clause
// Lost targets that return, crashed writers, and the next writers. The targets are real daemons.
#include "clocks.hpp"
#include "fixture.hpp"

namespace
{

// A target is killed or stopped. The next flush continues without it, and the other copies have the record without it.
void a_lost_target_leaves_the_set(bool stopped)
{
    target a, b;
    const host h;
    // The other target has half of this timeout to store the record, also on a busy machine.
    const cfg_ptr cfg = h.create({&a, &b}, stopped ? "timeouts 6000 60000\n" : "");
    const opened m(cfg.get());
    m.put(0, "before");
    if (stopped)
        b.stop();
    else
        b.kill();
    m.put(0, "after!");
    // The record without b was durable on a before the flush returned.
    const auto seen = inspected(h.cfg({&a}).get());
    assert_true(seen->in_sync == 3 && seen->version >= 2);
    assert_true(a.bytes(0, 6) == "after!");
    const rpma_mirror_event e = m.expect(RPMA_MIRROR_EVENT_EVICTED);
    assert_true(e.copy == 2 && e.error.kind != RPMA_MIRROR_ERROR_NONE && e.error.contained == 1);
    const rpma_mirror_state s = m.state();
    assert_true(s.in_sync == 3 && s.copies[2].state == RPMA_MIRROR_COPY_STALE && s.copies[2].last_error != 0);
    rpma_mirror_error errors[4];
    std::size_t n = 4;
    assert_ok(rpma_mirror_get_error_info(m.get(), errors, &n));
    assert_true(n == 1 && errors[0].copy == 2);
    m.put(4096, "more");
    if (stopped)
        b.resume();
}

TEST(a_killed_target_leaves_the_set)
{
    a_lost_target_leaves_the_set(false);
}

TEST(a_stopped_target_leaves_the_set)
{
    needs_tcp();
    a_lost_target_leaves_the_set(true);
}

FIXTURE_TEST(two_hosts<one>, an_available_writer_continues_alone, "policy availability\n")
{
    {
        const opened m(here.get());
        m.put(0, "both..");
        a.kill();
        m.put(0, "alone!");
        m.expect(RPMA_MIRROR_EVENT_NO_TARGET);
        assert_int_equal(m.state().in_sync, 1);
        a.start();
        // That copy lacks data that only the local copy acknowledged, so it is never selected automatically.
        assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_UNFOUND);
    }
    const opened back(here.get());
    assert_true(a.bytes(0, 6) == "alone!");
    assert_int_equal(back.report().reason, RPMA_MIRROR_SOURCE_LOCAL_NEWEST);
}

FIXTURE_TEST(open_set<one>, targets_are_added_and_dropped)
{
    const target b, c;
    m.put(4096, "early");
    assert_int_equal(rpma_mirror_remove_target(m.get(), 1), RPMA_MIRROR_E_NO_TARGET);
    assert_ok(rpma_mirror_add_target(m.get(), 2, b.place().c_str(), "set", nullptr));
    assert_true(b.bytes(4096, 5) == "early");
    assert_int_equal(rpma_mirror_add_target(m.get(), 2, c.place().c_str(), "set", nullptr), RPMA_MIRROR_E_INVAL);
    assert_int_equal(m.state().in_sync, 7);
    assert_ok(rpma_mirror_remove_target(m.get(), 1));
    m.put(4096, "later");
    assert_true(a.bytes(4096, 5) == "early" && b.bytes(4096, 5) == "later");
    assert_true(m.state().members == 5 && m.state().copies[1].state == RPMA_MIRROR_COPY_ABSENT);
    m.close();
    // The removed target is neither a source nor required.
    a.kill();
    opened again(h.cfg({nullptr, &b}).get());
    assert_true(std::string(again.address() + 4096, 5) == "later");
}

void write_leak_and_die(const rpma_mirror_cfg *cfg)
{
    use_and_die(cfg, [](const opened &m) {
        m.put(0, "acknowledged");
        m.store(2 * megabyte, "leaked"); // the local file has it, without any flush
    });
}

FIXTURE_TEST(set_of<two>, a_writer_that_crashed_starts_again)
{
    write_leak_and_die(cfg.get());
    assert_true(a.bytes(2 * megabyte, 6) != "leaked");
    const opened m(cfg.get());
    assert_true(std::string(m.address(), 12) == "acknowledged");
    // Otherwise a later failover would revert what the program has already read.
    assert_true(a.bytes(2 * megabyte, 6) == "leaked" && b.bytes(2 * megabyte, 6) == "leaked");
    const rpma_mirror_recovery_report r = m.report();
    assert_true(r.source == 0 && r.reason == RPMA_MIRROR_SOURCE_LOCAL_NEWEST && r.was_clean == 0);
    assert_true(r.sent_bytes == 2 * 65536 && r.compared_bytes == 2 * length && r.in_sync == 7 && r.epoch == 3);
}

FIXTURE_TEST(set_of<one>, after_a_clean_end_nothing_is_compared)
{
    opened(cfg.get()).close();
    opened m(cfg.get());
    assert_true(m.report().was_clean == 1 && m.report().compared_bytes == 0);
    m.close();
    auto r = sized<rpma_mirror_recovery_report>();
    assert_ok(rpma_mirror_recover(cfg.get(), 0, &r));
    assert_true(r.was_clean == 1 && r.in_sync == 3);
}

FIXTURE_TEST(two_hosts<two>, the_old_writer_is_fenced)
{
    const opened old(here.get());
    old.put(0, "acknowledged");
    old.store(4096, "not flushed");
    const opened now(there.get());
    assert_true(std::string(now.address(), 12) == "acknowledged");
    assert_true(now.report().reason == RPMA_MIRROR_SOURCE_TARGET_NEWEST && now.state().epoch == 3);
    old.store(0, "too late....");
    const int code = old.flush(0, 12);
    assert_int_equal(code, RPMA_MIRROR_E_FENCED);
    old.expect(RPMA_MIRROR_EVENT_FENCED);
    assert_int_equal(old.flush(0, 12), RPMA_MIRROR_E_FENCED);
    assert_int_equal(rpma_mirror_resync(old.get(), 1, nullptr), RPMA_MIRROR_E_FENCED);
    assert_true(a.bytes(0, 12) == "acknowledged" && b.bytes(0, 12) == "acknowledged");
    now.put(0, "the new one.");
    assert_true(a.bytes(0, 12) == "the new one.");
}

FIXTURE_TEST(two_hosts<one>, an_old_primary_returns_as_a_stale_copy)
{
    write_leak_and_die(here.get());
    {
        opened now(there.get());
        now.put(0, "second owner");
        assert_true(std::string(now.address() + 2 * megabyte, 6) != "leaked");
        now.close();
    }
    const opened back(here.get());
    assert_true(std::string(back.address(), 12) == "second owner");
    assert_true(std::string(back.address() + 2 * megabyte, 6) != "leaked");
    assert_int_equal(back.report().source, 1);
}

// The clock was wrong at the first forced opening, so the second one has no time that exceeds all epochs.
FIXTURE_TEST(two_hosts<two>, a_forced_opening_remains_the_newest_if_the_clock_was_set_back)
{
    set_forward_s = 3600;
    b.kill();
    {
        opened m(here.get(), RPMA_MIRROR_F_FORCE);
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        b.kill();
        m.put(0, "without b");
        m.close();
    }
    set_forward_s = 0;
    assert_int_equal(map_code(here.get()), 0);
    assert_int_equal(map_code(here.get()), 0);
    a.kill();
    b.start();
    put_and_close(there.get(), "without a", RPMA_MIRROR_F_FORCE);
    a.start();
    const opened back(there.get());
    assert_true(std::string(back.address(), 9) == "without a" && a.bytes(0, 9) == "without a");
}

} // namespace

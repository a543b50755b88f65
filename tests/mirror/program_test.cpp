// SPDX-License-Identifier: BSD-3-Clause
// Calls of the library to the program: the eviction function and events. Consistency points that the program sets.
#include "fixture.hpp"

#include <chrono>
#include <thread>
#include <unistd.h>

namespace
{

// State of the program's callbacks.
struct callbacks {
    int result = 0;
    std::chrono::milliseconds duration{0};
    const rpma_mirror_cfg *observed = nullptr; // set whose state the callback inspects, as another machine would see it
    std::uint32_t in_sync_there = 0;
    std::vector<rpma_mirror_error> evictions;
    std::vector<rpma_mirror_event_type> events;

    int operator()(const rpma_mirror_error &error)
    {
        evictions.push_back(error);
        if (observed != nullptr)
            in_sync_there = inspected(observed)->in_sync;
        std::this_thread::sleep_for(duration);
        return result;
    }
    void operator()(const rpma_mirror_event &event) { events.push_back(event.type); }

    // Creates a set whose configuration has these callbacks.
    cfg_ptr create(const host &h, const std::vector<const target *> &targets, const std::string &more = "")
    {
        cfg_ptr created = h.cfg(targets, more);
        on_eviction(created.get(), *this);
        on_event(created.get(), *this);
        assert_ok(rpma_mirror_create(created.get()));
        return created;
    }
};

// The set of a program with callbacks, and the configuration of another machine with the first target.
template<class Targets>
struct program_set : Targets {
    explicit program_set(const std::string &more = "") : cfg(program.create(h, this->all(), more)) {}
    const host h, other{5};
    callbacks program;
    const cfg_ptr cfg, there = other.cfg({&this->a});
};

// The function is called before any change, and once for each copy.
FIXTURE_TEST(program_set<three>, the_function_is_called_before_a_copy_is_evicted)
{
    const opened m(cfg.get());
    m.put(0, "before");
    assert_true(program.evictions.empty());
    program.observed = there.get();
    b.kill();
    m.put(0, "after!");
    assert_int_equal(program.evictions.size(), 1);
    const rpma_mirror_error &error = program.evictions[0];
    assert_true(error.size == sizeof(error) && error.copy == 2 && error.code == RPMA_MIRROR_E_CONNECTION);
    assert_true(error.kind == RPMA_MIRROR_ERROR_CONNECTION && error.contained == 1 && error.live == 1 &&
                error.precise == 0);
    assert_int_equal(program.in_sync_there, 15);
    assert_true(program.events == std::vector{RPMA_MIRROR_EVENT_EVICTED});
    assert_int_equal(inspected(there.get())->in_sync, 11);
    // The function is not called for a copy that the program removes.
    assert_ok(rpma_mirror_remove_target(m.get(), 3));
    assert_int_equal(program.evictions.size(), 1);
    // It is not called for the last copy either: with the policy safety, this copy cannot leave.
    program.observed = nullptr;
    a.kill();
    assert_int_equal(m.flush(0, 1), RPMA_MIRROR_E_NO_TARGET);
    assert_int_equal(program.evictions.size(), 1);
}

// The function is also called for a copy that is lost while the record without another copy is being committed.
FIXTURE_TEST(program_set<three>, the_function_is_called_for_each_evicted_copy)
{
    opened m(cfg.get());
    b.kill();
    c.kill();
    assert_ok(rpma_mirror_set_consistency_point(m.get(), 1));
    assert_int_equal(program.evictions.size(), 2);
    assert_int_equal(program.evictions[0].copy + program.evictions[1].copy, 5);
    assert_int_equal(m.state().in_sync, 3);
    m.close();
}

FIXTURE_TEST(program_set<two>, it_stops_rather_than_lose_a_copy)
{
    program.result = 1;
    {
        const opened m(cfg.get());
        m.put(0, "before");
        b.kill();
        m.store(0, "never!");
        assert_int_equal(m.flush(0, 6), RPMA_MIRROR_E_EVICTION_REFUSED);
        const rpma_mirror_event e = m.expect(RPMA_MIRROR_EVENT_EVICTION_REFUSED);
        assert_true(e.copy == 2 && e.error.code == RPMA_MIRROR_E_EVICTION_REFUSED && e.error.live == 0);
        assert_true(program.events == std::vector{RPMA_MIRROR_EVENT_EVICTION_REFUSED});
        // All later calls fail.
        std::uint64_t ticket = 0;
        const rpma_mirror_range r{0, 6};
        for (const int code : {m.flush(0, 6), rpma_mirror_flush_start(m.get(), 0, &r, 1, 0, &ticket),
                     rpma_mirror_atomic_write(m.get(), 0, 0, 1), rpma_mirror_set_consistency_point(m.get(), 1),
                     rpma_mirror_resync(m.get(), 2, nullptr), rpma_mirror_remove_target(m.get(), 2)})
            assert_int_equal(code, RPMA_MIRROR_E_EVICTION_REFUSED);
        assert_int_equal(program.evictions.size(), 1);
        assert_int_equal(m.state().is_open, 0);
        // The record still contains the copy, so no writer continues without it.
        assert_int_equal(inspected(there.get())->in_sync, 7);
    }
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_INCOMPLETE);
    b.start();
    opened again(cfg.get());
    const std::string found(again.address(), 6);
    assert_true(found == "before" || found == "never!");
    // A later unmap returns the error that stopped the mirror.
    b.kill();
    assert_int_equal(rpma_mirror_atomic_write(again.get(), 0, 0, 1), RPMA_MIRROR_E_EVICTION_REFUSED);
    again.close(RPMA_MIRROR_E_EVICTION_REFUSED);
    assert_int_equal(inspected(there.get())->clean, 0);
}

FIXTURE_TEST(program_set<one>, it_does_not_continue_alone, "policy availability\n")
{
    program.result = -1;
    const opened m(cfg.get());
    a.kill();
    assert_int_equal(m.flush(0, 1), RPMA_MIRROR_E_EVICTION_REFUSED);
    assert_int_equal(program.evictions.size(), 1);
}

// The function takes longer than the timeout of an operation. Calls that wait for the copy continue when it has
// returned.
FIXTURE_TEST(program_set<two>, a_function_that_takes_long_is_waited_for, "timeouts 6000 60000\nlanes 2\n")
{
    program.duration = std::chrono::milliseconds(6500);
    const opened m(cfg.get());
    m.put(0, "before");
    b.kill();
    m.store(4096, "2");
    int flushed = -1;
    std::thread second([&] { flushed = m.flush(4096, 1, 0, 1); });
    m.put(0, "after!");
    second.join();
    assert_ok(flushed);
    assert_int_equal(program.evictions.size(), 1);
    assert_int_equal(m.state().in_sync, 3);
    assert_true(a.bytes(0, 6) == "after!" && a.bytes(4096, 1) == "2");
}

// Callbacks that the mirror waits for, and the calls that they make.
struct calls_back {
    rpma_mirror *mirror = nullptr;
    std::string place;
    std::vector<int> refused, allowed;

    void call()
    {
        auto state = std::make_unique<rpma_mirror_state>();
        state->size = sizeof(*state);
        auto attributes = sized<rpma_mirror_attributes>();
        auto verified = sized<rpma_mirror_verify_report>();
        rpma_mirror *ended = mirror;
        const rpma_mirror_range r{4096, 1};
        refused = {rpma_mirror_get_state(mirror, state.get()), rpma_mirror_get_attributes(mirror, 0, &attributes),
                rpma_mirror_set_consistency_point(mirror, 1), rpma_mirror_resync(mirror, 1, nullptr),
                rpma_mirror_verify(mirror, 1, nullptr, &verified), rpma_mirror_remove_target(mirror, 1),
                rpma_mirror_add_target(mirror, 3, place.c_str(), "set", nullptr),
                rpma_mirror_repair_range(mirror, 0, 1, 1),
                rpma_mirror_optimized_flush_and_verify(mirror, 1, &r, 1, 0, nullptr, nullptr),
                rpma_mirror_unmap(&ended)};
        assert_ptr_equal(ended, mirror);
        std::size_t bytes = 0, n = 0;
        auto counted = sized<rpma_mirror_statistics>();
        auto report = sized<rpma_mirror_recovery_report>();
        allowed = {rpma_mirror_get_length(mirror, &bytes), rpma_mirror_get_statistics(mirror, &counted),
                rpma_mirror_get_error_info(mirror, nullptr, &n), rpma_mirror_get_recovery_report(mirror, &report)};
    }
    void check() const
    {
        assert_true(!refused.empty());
        for (std::size_t i = 0; i < refused.size(); ++i)
            if (refused[i] != RPMA_MIRROR_E_BUSY)
                fail_msg("call %zu: %s", i, rpma_mirror_err_2str(refused[i]));
        for (const int code : allowed)
            assert_int_equal(code, 0);
    }
};

TEST(functions_do_not_wait_for_themselves)
{
    const target a;
    target b, c;
    const host h;
    calls_back before, after;
    before.place = after.place = c.place();
    const cfg_ptr cfg = h.cfg({&a, &b}, "lanes 2\n");
    const rpma_mirror_range r{4096, 1};
    auto refuse = [&](const rpma_mirror_error &) {
        before.call();
        // The copy has not left yet, so no flush can be acknowledged.
        before.refused.push_back(rpma_mirror_optimized_flush(before.mirror, 1, &r, 1, 0));
        char byte = 0;
        before.refused.push_back(rpma_mirror_read(before.mirror, 1, 2, &byte, 0, 1));
        return 0;
    };
    on_eviction(cfg.get(), refuse);
    int flushed = -1; // after the copy has left
    auto flush = [&](const rpma_mirror_event &) {
        after.call();
        flushed = rpma_mirror_optimized_flush(after.mirror, 1, &r, 1, 0);
    };
    on_event(cfg.get(), flush);
    assert_ok(rpma_mirror_create(cfg.get()));
    const opened m(cfg.get());
    before.mirror = after.mirror = m.get();
    b.kill();
    m.put(0, "after!");
    before.check();
    after.check();
    assert_ok(flushed);
    assert_int_equal(m.state().in_sync, 3);
    // The rejected calls have had no effect.
    assert_int_equal(m.state().consistency_point, 0);
    assert_int_equal(m.state().members, 7);
    assert_int_equal(access((c.where().path + "/part").c_str(), F_OK), -1);
}

void mark_continue_and_die(const rpma_mirror_cfg *cfg)
{
    use_and_die(cfg, [](const opened &m) {
        m.put(0, "whole");
        assert_ok(rpma_mirror_set_consistency_point(m.get(), 9));
        m.put(4096, "half");
    });
}

TEST(consistency_points_are_found_after_a_crash)
{
    const target a, b, c;
    const host h, other(5);
    const cfg_ptr cfg = h.create({&a, &b});
    assert_int_equal(inspected(cfg.get())->consistency_point, 0);
    {
        const opened m(cfg.get());
        assert_int_equal(m.report().consistency_point, 0);
        for (const std::uint64_t mark : {7UL, ~0UL, 3UL}) {
            const std::uint64_t version = m.state().version;
            assert_ok(rpma_mirror_set_consistency_point(m.get(), mark));
            assert_int_equal(m.state().consistency_point, mark);
            assert_int_equal(m.state().version, version + 1);
            for (const target *t : {&a, &b})
                assert_int_equal(
                        inspected(other.cfg({t == &a ? t : nullptr, t == &b ? t : nullptr}).get())->consistency_point,
                        mark);
        }
        // Other changes of the record preserve it.
        assert_ok(rpma_mirror_remove_target(m.get(), 2));
        assert_ok(rpma_mirror_add_target(m.get(), 3, c.place().c_str(), "set", nullptr));
        assert_int_equal(m.state().consistency_point, 3);
    }
    const cfg_ptr now = h.cfg({&a, nullptr, &c}), elsewhere = other.cfg({&a, nullptr, &c});
    mark_continue_and_die(now.get());
    {
        const opened m(now.get());
        assert_int_equal(m.report().consistency_point, 9);
        assert_true(std::string(m.address(), 5) == "whole" && std::string(m.address() + 4096, 4) == "half");
    }
    mark_continue_and_die(now.get());
    const opened m(elsewhere.get());
    assert_int_equal(m.report().consistency_point, 9);
    assert_int_equal(m.state().consistency_point, 9);
    assert_true(std::string(m.address(), 5) == "whole");
}

FIXTURE_TEST(two_hosts<two>, a_consistency_point_skips_a_lost_target)
{
    const opened m(here.get());
    assert_ok(rpma_mirror_set_consistency_point(m.get(), 4));
    b.kill();
    assert_ok(rpma_mirror_set_consistency_point(m.get(), 5));
    assert_int_equal(m.state().in_sync, 3);
    m.expect(RPMA_MIRROR_EVENT_EVICTED);
    b.start();
    const cfg_ptr at_b = second.cfg({nullptr, &b});
    assert_int_equal(inspected(at_b.get())->consistency_point, 4);
    assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
    assert_int_equal(inspected(at_b.get())->consistency_point, 5);
    // A writer that lost the set cannot set a consistency point.
    assert_ok(rpma_mirror_fence(there.get(), 0, nullptr));
    assert_int_equal(rpma_mirror_set_consistency_point(m.get(), 6), RPMA_MIRROR_E_FENCED);
    assert_int_equal(inspected(at_b.get())->consistency_point, 5);
    assert_int_equal(rpma_mirror_set_consistency_point(nullptr, 6), RPMA_MIRROR_E_INVAL);
}

FIXTURE_TEST(open_set<one>, a_consistency_point_on_no_target_ends_the_mirror)
{
    assert_ok(rpma_mirror_set_consistency_point(m.get(), 1));
    a.kill();
    assert_int_equal(rpma_mirror_set_consistency_point(m.get(), 2), RPMA_MIRROR_E_NO_TARGET);
    assert_int_equal(m.state().is_open, 0);
    assert_int_equal(m.expect(RPMA_MIRROR_EVENT_NO_TARGET).error.code, RPMA_MIRROR_E_NO_TARGET);
    assert_int_equal(m.flush(0, 1), RPMA_MIRROR_E_NO_TARGET);
}

} // namespace

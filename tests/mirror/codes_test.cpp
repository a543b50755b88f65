// SPDX-License-Identifier: BSD-3-Clause
// Each failure has a code of its own, and each thread that gets a code gets a message with it.
#include "fixture.hpp"

#include <dlfcn.h>
#include <functional>
#include <librpma.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace
{

// Called once, before this process reads from a target or makes a state file durable.
std::function<void()> before_read, before_state;
bool device_fails = false; // when a lane posts its first receive

void call_once(std::function<void()> &f)
{
    if (f)
        std::exchange(f, nullptr)();
}

} // namespace

extern "C" [[gnu::visibility("default")]] int rpma_read(rpma_conn *conn, rpma_mr_local *to, std::size_t to_offset,
        const rpma_mr_remote *from, std::size_t offset, std::size_t size, int flags, const void *context)
{
    static const auto real = reinterpret_cast<decltype(&rpma_read)>(dlsym(RTLD_NEXT, "rpma_read"));
    call_once(before_read);
    return real(conn, to, to_offset, from, offset, size, flags, context);
}

extern "C" [[gnu::visibility("default")]] int rpma_conn_req_recv(
        rpma_conn_req *req, rpma_mr_local *to, std::size_t offset, std::size_t size, const void *context)
{
    static const auto real = reinterpret_cast<decltype(&rpma_conn_req_recv)>(dlsym(RTLD_NEXT, "rpma_conn_req_recv"));
    errno = EIO;
    return device_fails ? RPMA_E_PROVIDER : real(req, to, offset, size, context);
}

extern "C" [[gnu::visibility("default")]] int fdatasync(int fd)
{
    call_once(before_state);
    return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace
{

FIXTURE_TEST(set_of<two>, other_lanes_get_the_message_with_the_code, "lanes 2\n")
{
    const opened *set = nullptr;
    std::thread other;
    int code = 0;
    std::string message;
    // The first lane ends the mirror while the second one waits for the decision of the first one.
    auto stop_while_the_other_lane_waits = [&](const rpma_mirror_error &) {
        other = std::thread([&] {
            code = set->flush(4096, 8, 0, 1);
            message = rpma_mirror_error_message();
        });
        usleep(300'000);
        return 1;
    };
    on_eviction(cfg.get(), stop_while_the_other_lane_waits);
    const opened m(cfg.get());
    set = &m;
    b.kill();
    const std::string text = "copy 2: eviction refused";
    assert_rejected(m.flush(0, 8), RPMA_MIRROR_E_EVICTION_REFUSED, text);
    other.join();
    assert_int_equal(code, RPMA_MIRROR_E_EVICTION_REFUSED);
    assert_true(message.find(text) != std::string::npos);
    // Calls that start later fail too, also in threads without an earlier failure.
    std::thread([&] { assert_rejected(m.flush(0, 8), RPMA_MIRROR_E_EVICTION_REFUSED, text); }).join();
}

// Flushed data is durable on the remaining copies, which are therefore verified.
FIXTURE_TEST(open_set<two>, a_target_that_is_lost_while_it_is_read_leaves_the_set)
{
    m.store(0, "verified");
    before_read = [&] { a.kill(); };
    const rpma_mirror_range r{0, 8};
    rpma_mirror_verify_level level = RPMA_MIRROR_VERIFY_MEDIA;
    assert_ok(rpma_mirror_optimized_flush_and_verify(m.get(), 0, &r, 1, 0, &level, nullptr));
    assert_int_equal(level, RPMA_MIRROR_VERIFY_CACHE);
    assert_int_equal(m.expect(RPMA_MIRROR_EVENT_EVICTED).copy, 1);
    assert_int_equal(m.state().in_sync, 5);
    assert_true(b.bytes(0, 8) == "verified");
    // With the policy safety, losing the last target ends the mirror.
    before_read = [&] { b.kill(); };
    assert_int_equal(
            rpma_mirror_optimized_flush_and_verify(m.get(), 0, &r, 1, 0, &level, nullptr), RPMA_MIRROR_E_NO_TARGET);
}

FIXTURE_TEST(open_set<one>, without_a_target_nothing_is_verified, "policy availability\n")
{
    before_read = [&] { a.kill(); };
    const rpma_mirror_range r{0, 8};
    rpma_mirror_verify_level level = RPMA_MIRROR_VERIFY_MEDIA;
    assert_ok(rpma_mirror_optimized_flush_and_verify(m.get(), 0, &r, 1, 0, &level, nullptr));
    assert_int_equal(level, RPMA_MIRROR_VERIFY_NONE);
}

FIXTURE_TEST(set_of<one>, an_end_that_no_target_confirms_is_unclean, "policy availability\n")
{
    opened m(cfg.get());
    m.put(0, "acknowledged");
    before_state = [&] { a.kill(); };
    m.close(RPMA_MIRROR_E_UNCLEAN);
    // The next opening requires the target, which may have the clean record.
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_INCOMPLETE);
    a.start();
    const opened again(cfg.get());
    assert_true(std::string(again.address(), 12) == "acknowledged");
}

// An error of a device concerns only the targets that it reaches. A lack of memory would concern all of them.
FIXTURE_TEST(set_of<one>, an_error_of_the_device_is_no_lack_of_memory)
{
    device_fails = true;
    assert_rejected(map_code(cfg.get()), RPMA_MIRROR_E_INCOMPLETE, "Input/output error");
    device_fails = false;
    assert_int_equal(map_code(cfg.get()), 0);
}

// A host opens the set, and its source is killed while the local copy is compared with it.
struct unsteady_source : two_hosts<one> {
    bool again = false; // in each attempt
    bool returns = true;
    bool killed = false;

    int operator()(const rpma_mirror_progress &)
    {
        if (std::exchange(killed, !again))
            return 0;
        a.kill();
        if (returns)
            a.start();
        return 0;
    }
    unsteady_source()
    {
        put_and_close(here.get(), "acknowledged");
        const rpma_mirror_resync_options options = with_progress(*this);
        assert_ok(rpma_mirror_cfg_set_resync_options(there.get(), &options));
    }
};

FIXTURE_TEST(unsteady_source, a_source_that_returns_at_once_interrupts_nothing)
{
    opened m(there.get());
    assert_true(std::string(m.address(), 12) == "acknowledged");
    assert_int_equal(m.state().in_sync, 1 << 1 | 1 << second.copy);
    m.close();
}

FIXTURE_TEST(unsteady_source, a_source_that_is_lost_again_interrupts_the_opening)
{
    again = true;
    assert_rejected(map_code(there.get()), RPMA_MIRROR_E_INTERRUPTED, "source was lost");
}

// The local copy has no record yet, so the target might have one.
FIXTURE_TEST(unsteady_source, a_source_that_stays_away_is_named)
{
    returns = false;
    assert_rejected(map_code(there.get()), RPMA_MIRROR_E_CONNECTION, a.place());
}

// The second target was evicted before the set grew.
struct longer_first_target : two_hosts<two> {
    longer_first_target() : two_hosts("max-length 16M\n")
    {
        for (const target *const t : all())
            t->list_part("16M");
        opened m(here.get());
        b.kill();
        m.put(0, "evicted");
        assert_ok(rpma_mirror_grow(m.get(), 2 * length));
        m.put(2 * length - 8, "the end");
        m.close();
        b.start();
        before_state = [this] { a.kill(); };
    }
};

FIXTURE_TEST(longer_first_target, a_forced_opening_selects_another_source_of_another_length)
{
    opened m(there.get(), RPMA_MIRROR_F_FORCE);
    assert_int_equal(m.length(), length);
    assert_int_equal(m.report().source, 2);
    m.put(0, "forced");
    m.close();
    assert_true(b.bytes(0, 6) == "forced");
}

FIXTURE_TEST(longer_first_target, without_force_no_shorter_copy_is_the_source)
{
    assert_int_equal(map_code(there.get()), RPMA_MIRROR_E_INCOMPLETE);
    a.start();
    opened m(there.get());
    assert_int_equal(m.length(), 2 * length);
    assert_true(std::string(m.address() + 2 * length - 8, 7) == "the end");
    m.close();
    assert_true(b.bytes(2 * length - 8, 7) == "the end");
}

// A failed repair leaves a local copy that is not in sync by its own state.
FIXTURE_TEST(set_of<one>, without_any_copy_in_sync_the_set_is_down)
{
    {
        const opened m(cfg.get());
        m.put(0, "precious");
        assert_int_equal(mprotect(m.address(), 4096, PROT_READ), 0);
        assert_int_equal(rpma_mirror_repair_range(m.get(), 0, 4096, RPMA_MIRROR_ALL_COPIES), RPMA_MIRROR_E_MEDIA);
    }
    a.kill();
    assert_int_equal(map_code(cfg.get()), RPMA_MIRROR_E_INCOMPLETE);
    assert_int_equal(map_code(cfg.get(), RPMA_MIRROR_F_FORCE), RPMA_MIRROR_E_DOWN);
    a.start();
    const opened m(cfg.get());
    assert_true(std::string(m.address(), 8) == "precious");
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
// A session whose client disappeared without closing its connection, as after a network failure, and the next session
// of this client. Runs on softrdma, as does the daemon.
#include <csignal>
#include <thread>
#include <unistd.h>

#include "client.hpp"

namespace
{

constexpr std::uint64_t size = 8 << 20;
constexpr std::uint32_t keep_alive_ms = 100;

struct place : scratch {
    place() { write("a.set", "PMEMPOOLSET\n16M @p0\n"); }
};

replica::request request_of(bool create, std::uint32_t promised_ms)
{
    replica::request r = pool_request(create, "a.set", size);
    (create ? r.mutable_create() : r.mutable_open())->set_keep_alive_ms(promised_ms);
    return r;
}

replica::wire::region begin(daemon_process &daemon, bool create, std::uint32_t promised_ms)
{
    daemon.greet();
    const replica::response a = daemon.ask(request_of(create, promised_ms));
    assert_int_equal(status_of(a), replica::status::success);
    return a.region();
}

replica::status try_to_open(const place &at)
{
    daemon_process next(at);
    next.greet();
    return status_of(next.ask(request_of(false, 0)));
}

TEST(the_next_session_of_a_client_that_is_gone_takes_over)
{
    const place at;
    daemon_process orphan(at), next(at);
    const replica::wire::region first = begin(orphan, true, keep_alive_ms);
    test_lane lane(first, 0);
    lane.write(4096, "before");
    assert_int_equal(lane.flush(4096, 6), 0);
    const replica::wire::region second = begin(next, false, keep_alive_ms);
    assert_int_equal(orphan.exit_status(), 1);
    // No data of the first session arrives after that.
    assert_false(lane.try_write(4096, "behind"));
    test_lane own(second, 0);
    assert_string_equal(at.read("p0").substr(4096, 6).c_str(), "before");
}

TEST(so_does_a_creation_after_one_that_was_cut)
{
    const place at;
    daemon_process orphan(at), next(at);
    begin(orphan, true, keep_alive_ms);
    const test_lane lane(begin(next, true, keep_alive_ms), 0);
    assert_int_equal(orphan.exit_status(), 1);
    assert_true(lane.is_connected() && at.has("p0"));
}

TEST(a_client_that_lives_stays)
{
    const place at;
    daemon_process living(at);
    const test_lane lane(begin(living, true, keep_alive_ms), 0);
    const std::jthread client([&living](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            living.ask({});
            usleep(keep_alive_ms * 1000 / 4);
        }
    });
    assert_int_equal(try_to_open(at), replica::status::busy);
}

TEST(a_client_elsewhere_takes_nothing)
{
    const place at;
    daemon_process silent(at);
    const test_lane lane(begin(silent, true, keep_alive_ms), 0);
    setenv("SSH_CONNECTION", "192.0.2.7 50000 127.0.0.1 22", 1);
    const replica::status found = try_to_open(at);
    unsetenv("SSH_CONNECTION");
    assert_int_equal(found, replica::status::busy);
}

TEST(a_client_that_promised_nothing_may_be_silent)
{
    const place at;
    daemon_process silent(at);
    const test_lane lane(begin(silent, true, 0), 0);
    assert_int_equal(try_to_open(at), replica::status::busy);
}

} // namespace

int main()
{
    (void)std::signal(SIGPIPE, SIG_IGN);
    return run_registered_tests();
}

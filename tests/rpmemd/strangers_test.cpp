// SPDX-License-Identifier: BSD-3-Clause
// Unauthenticated connections to a standing daemon, which still serves clients with the key. Runs on softrdma, as does
// the daemon.
#include <atomic>
#include <deque>
#include <poll.h>
#include <thread>

#include "mirror_client.hpp"

namespace
{

constexpr std::size_t strangers = 600;
constexpr int requests = 60;

bool is_closed(const replica::fd_owner &connection, int wait_ms)
{
    pollfd asked{connection.get(), POLLRDHUP, 0};
    return poll(&asked, 1, wait_ms) == 1;
}

// Unauthenticated clients that hold connections, and replace each connection that the daemon closes.
class crowd
{
public:
    explicit crowd(const standing_daemon &of) : daemon_(of)
    {
        for (std::size_t i = 0; i < strangers; ++i)
            connections_.push_back(connect_to(of));
        thread_ = std::jthread([this](const std::stop_token &stop) {
            for (std::size_t i = 0; !stop.stop_requested(); i = (i + 1) % connections_.size())
                if (is_closed(connections_[i], 1))
                    connections_[i] = connect_to(daemon_);
        });
    }

private:
    const standing_daemon &daemon_;
    std::deque<replica::fd_owner> connections_;
    std::jthread thread_;
};

FIXTURE_TEST(running_daemon, clients_are_served_beside_unauthenticated_peers)
{
    writer(daemon).create();
    const crowd held(daemon);
    // On a busy machine, 512 newer connections can displace a client before its first message arrives.
    for (int i = 0, displaced = 0; i < requests; ++i) {
        writer w(daemon);
        if (w.failure().empty())
            assert_int_equal(status_of(w.state()), status::success);
        else
            assert_true(++displaced < requests);
    }
}

FIXTURE_TEST(running_daemon, each_address_has_a_quota_of_its_own,
        std::vector<std::string>{"--max-unauthenticated-per-address", "4"})
{
    const replica::fd_owner other = connect_to(daemon, "127.0.0.2");
    std::deque<replica::fd_owner> held;
    for (int i = 0; i < 6; ++i)
        held.push_back(connect_to(daemon));
    // The daemon closed the oldest connections of the address that exceeds the limit.
    for (int i = 0; i < 2; ++i)
        assert_true(is_closed(held[static_cast<std::size_t>(i)], limit_ms));
    assert_int_equal(status_of(writer(daemon).state()), status::missing);
    assert_false(is_closed(held[5], 0) || is_closed(other, 0));
}

FIXTURE_TEST(running_daemon, a_silent_client_is_disconnected)
{
    const replica::fd_owner silent = connect_to(daemon), slow = connect_to(daemon);
    assert_int_equal(write(slow.get(), "\x16\x03\x01\x02", 4), 4);
    assert_true(is_closed(silent, limit_ms) && is_closed(slow, limit_ms));
    assert_int_equal(status_of(writer(daemon).state()), status::missing);
}

FIXTURE_TEST(running_daemon, the_oldest_of_all_goes_first, {"--max-unauthenticated", "2"})
{
    std::deque<replica::fd_owner> held;
    for (const char *const from : {"127.0.0.2", "127.0.0.3", "127.0.0.4"})
        held.push_back(connect_to(daemon, from));
    assert_true(is_closed(held[0], limit_ms));
    assert_false(is_closed(held[1], 0) || is_closed(held[2], 0));
}

FIXTURE_TEST(running_daemon, the_limit_of_sessions_is_of_clients_that_have_the_key,
        std::vector<std::string>{"--max-sessions", "1"})
{
    const replica::fd_owner stranger = connect_to(daemon);
    {
        writer first(daemon);
        const writer second(daemon);
        assert_non_null(std::strstr(second.failure().c_str(), "see max-sessions"));
        assert_int_equal(status_of(first.state()), status::missing);
    }
    // The daemon detects the end of the first session with a delay.
    bool served = false;
    for (int i = 0; i < 1000 && !served; ++i) {
        writer next(daemon);
        replica::response a;
        served = next.failure().empty() && next.send(next.about(kind::kGetState), a);
    }
    assert_true(served);
    assert_false(is_closed(stranger, 0));
}

} // namespace

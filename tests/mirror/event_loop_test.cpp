// SPDX-License-Identifier: BSD-3-Clause
// Completion of tickets in an event loop: the descriptor of a lane, and rpma_mirror_flush_take(), which does not wait.
#include "fixture.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <poll.h>
#include <random>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <librpma.h>

namespace
{

std::function<void()> before_cq_wait;

} // namespace

// Replaces the function of librpma: completions can arrive before it requests the next notification.
extern "C" int rpma_cq_wait(rpma_cq *cq)
{
    static const auto real = reinterpret_cast<decltype(&rpma_cq_wait)>(dlsym(RTLD_NEXT, "rpma_cq_wait"));
    if (before_cq_wait)
        std::exchange(before_cq_wait, {})();
    return real(cq);
}

namespace
{

// The limit is below the longer timeout, at which a lane checks its targets: an event that was lost fails the test.
constexpr int limit_ms = 20'000;
constexpr const char *short_times = "timeouts 1000 20000\n", *long_times = "timeouts 60000 60000\n";

using clock_type = std::chrono::steady_clock;

class lane
{
public:
    lane(const opened &m, unsigned number) : m_(m), number_(number)
    {
        int again = -1;
        assert_ok(rpma_mirror_get_lane_fd(m.get(), number, &fd_));
        assert_ok(rpma_mirror_get_lane_fd(m.get(), number, &again));
        assert_int_equal(fd_, again);
    }

    int fd() const { return fd_; }
    std::uint64_t outstanding() const { return started_ - taken_; }
    std::uint64_t taken() const { return taken_; }
    bool is_readable(int timeout_ms = 0) const
    {
        pollfd waited{fd_, POLLIN, 0};
        return poll(&waited, 1, timeout_ms) == 1;
    }

    // Starts a flush of a word that contains its number.
    int start()
    {
        const std::uint64_t word = started_ + 1, offset = number_ * megabyte + word * 64;
        std::memcpy(m_.address() + offset, &word, sizeof(word));
        const rpma_mirror_range r{offset, sizeof(word)};
        std::uint64_t ticket = 0;
        const int code = rpma_mirror_flush_start(m_.get(), number_, &r, 1, 0, &ticket);
        if (code == 0)
            assert_int_equal(ticket, ++started_);
        return code;
    }

    // Takes tickets, each of which must be new. The call must not wait.
    int take(std::size_t limit = RPMA_MIRROR_MAX_TICKETS)
    {
        std::array<std::uint64_t, RPMA_MIRROR_MAX_TICKETS> tickets{};
        std::size_t count = limit;
        const auto before = clock_type::now();
        const int code = rpma_mirror_flush_take(m_.get(), number_, tickets.data(), &count);
        assert_true(clock_type::now() - before < std::chrono::milliseconds(900));
        if (code != 0)
            return code;
        assert_true(count <= limit);
        for (std::size_t i = 0; i < count; ++i) {
            assert_true(tickets[i] > 0 && tickets[i] <= started_);
            assert_int_equal(seen_.size() <= tickets[i] || !seen_[tickets[i]], 1);
            seen_.resize(std::max<std::size_t>(seen_.size(), tickets[i] + 1));
            seen_[tickets[i]] = true;
        }
        taken_ += count;
        return 0;
    }

    // Takes all tickets, and waits for the descriptor only.
    void take_all()
    {
        while (outstanding() != 0) {
            assert_true(is_readable(limit_ms));
            assert_ok(take());
        }
    }

    // Without a ticket the descriptor can be readable a few times, but not forever.
    void check_quiet()
    {
        for (int spurious = 0; is_readable(50); ++spurious) {
            assert_true(spurious < 10);
            assert_ok(take());
        }
        assert_false(is_readable());
    }

    bool is_on(const target &t) const
    {
        const std::string bytes = t.bytes(number_ * megabyte, (started_ + 1) * 64);
        for (std::uint64_t word = 1; word <= started_; ++word)
            if (std::memcmp(bytes.data() + word * 64, &word, sizeof(word)) != 0)
                return false;
        return true;
    }

private:
    const opened &m_;
    const unsigned number_;
    int fd_ = -1;
    std::uint64_t started_ = 0, taken_ = 0;
    std::vector<bool> seen_;
};

// Open set with two targets and two lanes.
struct loop_set : open_set<two> {
    explicit loop_set(const char *more = long_times) : open_set<two>(std::string("lanes 2 128\n") + more) {}
};

// Its writer has evicted the second target.
struct degraded_set : loop_set {
    degraded_set()
    {
        b.kill();
        assert_ok(m.flush(0, 8));
        assert_int_equal(m.state().in_sync, 3);
    }
};

// Runs an event loop until each lane has taken `count` tickets, with at most `window` outstanding per lane. Calls
// middle() once, after half of the tickets.
template<class F>
void run_loop(std::array<lane, 2> &lanes, std::uint64_t count, std::uint64_t window, F middle)
{
    const int loop = epoll_create1(EPOLL_CLOEXEC);
    for (std::uint64_t i = 0; i < lanes.size(); ++i) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.u64 = i;
        assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, lanes[i].fd(), &wanted), 0);
    }
    std::mt19937 random(1);
    bool passed = false;
    while (lanes[0].taken() < count || lanes[1].taken() < count) {
        if (!passed && lanes[0].taken() + lanes[1].taken() >= count) {
            passed = true;
            middle();
        }
        for (lane &l : lanes)
            for (std::uint64_t more = random() % 4;
                    more > 0 && l.outstanding() < window && l.taken() + l.outstanding() < count; --more)
                assert_ok(l.start());
        // With few outstanding tickets, each completion must be reported.
        const bool waits = lanes[0].outstanding() + lanes[1].outstanding() > 0 && random() % 4 == 0;
        epoll_event events[2];
        const int ready = epoll_wait(loop, events, 2, waits ? limit_ms : 0);
        assert_true(ready > 0 || (ready == 0 && !waits));
        for (int i = 0; i < ready; ++i)
            assert_ok(lanes[events[i].data.u64].take());
    }
    close(loop);
    for (lane &l : lanes)
        l.check_quiet();
}

FIXTURE_TEST(loop_set, ten_thousand_tickets)
{
    std::array<lane, 2> lanes{lane(m, 0), lane(m, 1)};
    run_loop(lanes, 5000, 24, [] {});
    assert_int_equal(m.state().in_sync, 7);
    for (const lane &l : lanes)
        assert_true(l.is_on(a) && l.is_on(b));
    char *metrics = nullptr;
    assert_ok(rpma_mirror_get_metrics(m.get(), &metrics));
    const std::string text = metrics;
    free(metrics);
    const std::size_t count = text.find("rpma_mirror_flush_seconds_count{");
    assert_true(count != std::string::npos && text.compare(text.find('}', count), 8, "} 10000\n") == 0);
    assert_true(text.find("} 80000\n", text.find("rpma_mirror_flushed_bytes_total{")) != std::string::npos);
}

// With at most 8 outstanding tickets flush_start() does not wait for the target, so the thread of the library must find
// the loss.
TEST(a_target_is_lost_in_the_middle)
{
    for (const std::uint64_t window : {8U, 64U}) {
        loop_set s(short_times);
        std::array<lane, 2> lanes{lane(s.m, 0), lane(s.m, 1)};
        run_loop(lanes, 5000, window, [&] {
            if (uses_tcp())
                s.b.stop();
            else
                s.b.kill();
        });
        assert_int_equal(s.m.state().in_sync, 3);
        for (const lane &l : lanes)
            assert_true(l.is_on(s.a));
    }
}

FIXTURE_TEST(loop_set, a_target_that_returns_is_watched)
{
    std::array<lane, 2> lanes{lane(m, 0), lane(m, 1)};
    for (int round = 0; round < 3; ++round) {
        b.kill();
        assert_ok(lanes[0].start());
        lanes[0].take_all();
        m.expect(RPMA_MIRROR_EVENT_EVICTED);
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        for (lane &l : lanes) {
            assert_ok(l.start());
            l.take_all();
            assert_true(l.is_on(a) && l.is_on(b));
        }
    }
}

// The program waits for the descriptor only. It becomes readable although no target sends anything.
FIXTURE_TEST(over_tcp<loop_set>, silence_is_reported, short_times)
{
    lane l(m, 1);
    b.stop();
    for (int i = 0; i < 3; ++i)
        assert_ok(l.start());
    l.take_all();
    assert_int_equal(m.state().in_sync, 3);
    assert_int_equal(m.state().copies[2].last_error, RPMA_MIRROR_E_TIMEOUT);
    l.check_quiet();
}

// Each stop is longer than the limit of late confirmations, and shorter than the timeout.
FIXTURE_TEST(over_tcp<loop_set>, a_slow_target_is_evicted, "timeouts 1000 20000\nslow-after 3 200\n")
{
    lane l(m, 0);
    for (int round = 0; round < 3; ++round) {
        assert_int_equal(m.state().in_sync, 7);
        const std::jthread later = stop_for(500, b);
        assert_ok(l.start());
        l.take_all();
    }
    assert_int_equal(m.expect(RPMA_MIRROR_EVENT_EVICTED).copy, 2);
    const rpma_mirror_statistics s = m.statistics();
    assert_true(s.slow_evictions == 1 && s.late_confirmations == 3);
}

// Another lane detects the loss.
FIXTURE_TEST(over_tcp<loop_set>, an_eviction_elsewhere_is_reported, short_times)
{
    lane l(m, 1);
    b.stop();
    assert_ok(l.start());
    assert_ok(m.flush(0, 8));
    assert_int_equal(m.state().in_sync, 3);
    l.take_all();
    l.check_quiet();
}

// Calls that wait on the same lane collect the completions of earlier tickets.
FIXTURE_TEST(loop_set, waits_of_the_lane_lose_no_wakeup)
{
    lane l(m, 0);
    char read_back[8];
    void (*const waits[])(const opened &, char *) = {
            [](const opened &o, char *) { assert_ok(o.flush(0, 8)); },
            [](const opened &o, char *) { assert_ok(rpma_mirror_atomic_write(o.get(), 0, 0, 7)); },
            [](const opened &o, char *to) { assert_ok(rpma_mirror_read(o.get(), 0, 1, to, 0, 8)); },
            [](const opened &o, char *) { assert_ok(rpma_mirror_set_consistency_point(o.get(), 1)); },
    };
    for (int round = 0; round < 200; ++round) {
        for (int i = 0; i < 1 + round % 12; ++i)
            assert_ok(l.start());
        waits[round % 4](m, read_back);
        l.take_all();
    }
    l.check_quiet();
}

// A call that sleeps consumes the event of the connection, too.
FIXTURE_TEST(over_tcp<degraded_set>, a_call_that_sleeps_loses_no_wakeup)
{
    lane l(m, 0);
    for (int round = 0; round < 5; ++round) {
        l.check_quiet();
        assert_ok(l.start());
        std::this_thread::sleep_for(std::chrono::milliseconds(50)); // the target confirms the ticket
        {
            const std::jthread later = stop_for(100, a);
            assert_ok(m.flush(0, 8));
        }
        l.take_all();
    }
}

// The completion of a ticket arrives after the call found none, and before it requests the next notification.
FIXTURE_TEST(over_tcp<degraded_set>, a_completion_before_the_notification_is_reported)
{
    lane l(m, 0);
    bool arrived = false;
    for (int round = 0; !arrived; ++round) {
        assert_true(round < 20);
        l.check_quiet();
        assert_ok(m.flush(0, 8)); // collects its completion, usually without sleeping, and leaves the event
        a.stop();
        assert_ok(l.start());
        before_cq_wait = [&] {
            arrived = true;
            a.resume();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        };
        assert_ok(l.take());
        if (!arrived)
            a.resume();
        before_cq_wait = {};
        l.take_all();
    }
}

FIXTURE_TEST(loop_set, tickets_beyond_the_capacity_stay)
{
    lane l(m, 0);
    for (int i = 0; i < 5; ++i)
        assert_ok(l.start());
    assert_ok(m.flush(0, 8));
    for (std::uint64_t left = 5; left > 0; --left) {
        assert_int_equal(l.outstanding(), left);
        assert_true(l.is_readable(limit_ms));
        assert_ok(l.take(1));
    }
    l.check_quiet();
    // A ticket that was waited for is not reported. This lane has no descriptor.
    std::uint64_t ticket = 0, taken[4];
    std::size_t count = 4;
    const rpma_mirror_range r{0, 8};
    for (int i = 0; i < 3; ++i)
        assert_ok(rpma_mirror_flush_start(m.get(), 1, &r, 1, 0, &ticket));
    assert_ok(rpma_mirror_flush_wait(m.get(), 1, ticket - 1, -1));
    while (count != 1) {
        count = 4;
        assert_ok(rpma_mirror_flush_take(m.get(), 1, taken, &count));
        assert_true(count <= 1);
    }
    assert_int_equal(taken[0], ticket);
}

FIXTURE_TEST(loop_set, without_any_copy_the_failure_is_reported, short_times)
{
    std::array<lane, 2> lanes{lane(m, 0), lane(m, 1)};
    if (uses_tcp()) {
        a.stop();
        b.stop();
        assert_ok(lanes[0].start());
    }
    a.kill();
    b.kill();
    for (lane &l : lanes) {
        int code = 0;
        while (code == 0) {
            assert_true(l.is_readable(limit_ms));
            code = l.take();
        }
        assert_int_equal(code, RPMA_MIRROR_E_NO_TARGET);
        assert_int_equal(l.taken(), 0);
        for (int more = 0; l.is_readable(50); ++more) {
            assert_true(more < 10);
            assert_int_equal(l.take(), RPMA_MIRROR_E_NO_TARGET);
        }
    }
    m.close(RPMA_MIRROR_E_NO_TARGET);
}

FIXTURE_TEST(set_of<two>, a_set_is_closed_while_its_descriptor_is_watched, long_times)
{
    for (int round = 0; round < 10; ++round) {
        opened m(cfg.get());
        lane l(m, 0);
        const int loop = epoll_create1(EPOLL_CLOEXEC), stop = eventfd(0, EFD_CLOEXEC);
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        for (const int fd : {l.fd(), stop}) {
            wanted.data.fd = fd;
            assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted), 0);
        }
        std::thread watcher([&] {
            epoll_event event{};
            do {
                assert_true(epoll_wait(loop, &event, 1, limit_ms) == 1);
            } while (event.data.fd != stop);
        });
        assert_ok(l.start());
        m.close();
        eventfd_write(stop, 1);
        watcher.join();
        eventfd_t count = 0;
        eventfd_read(stop, &count);
        // The closed descriptor has left the set.
        assert_int_equal(epoll_wait(loop, &wanted, 1, 0), 0);
        close(loop);
        close(stop);
    }
}

FIXTURE_TEST(loop_set, arguments)
{
    int fd = -1;
    std::uint64_t ticket = 0;
    std::size_t count = 1;
    assert_int_equal(rpma_mirror_get_lane_fd(nullptr, 0, &fd), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_get_lane_fd(m.get(), 0, nullptr), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_get_lane_fd(m.get(), 2, &fd), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_flush_take(nullptr, 0, &ticket, &count), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_flush_take(m.get(), 0, nullptr, &count), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_flush_take(m.get(), 0, &ticket, nullptr), RPMA_MIRROR_E_INVAL);
    assert_int_equal(rpma_mirror_flush_take(m.get(), 2, &ticket, &count), RPMA_MIRROR_E_INVAL);
    assert_ok(rpma_mirror_flush_take(m.get(), 0, &ticket, &count));
    assert_int_equal(count, 0);
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous flushes: their number, and the order in which they are waited for. The targets are real daemons.
#include "fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>

namespace
{

// Limits of a lane: flushes in flight to a target, and stored tickets.
constexpr unsigned window = 8, max_tickets = 64;

// Flushes, numbered from 0, that alternate between the lanes. Each has two ranges, and stores its own word in each.
class flushes
{
public:
    flushes(const opened &m, unsigned lanes, std::uint64_t round) : m_(m), lanes_(lanes), round_(round) {}

    void start()
    {
        const auto number = static_cast<unsigned>(tickets_.size());
        const std::string word = word_of(number);
        const rpma_mirror_range ranges[] = {{place_of(number), 8}, {megabyte + place_of(number), 8}};
        for (const rpma_mirror_range &r : ranges)
            m_.store(r.offset, word);
        std::uint64_t ticket = 0;
        assert_ok(rpma_mirror_flush_start(m_.get(), number % lanes_, ranges, 2, 0, &ticket));
        if (number >= lanes_)
            assert_int_equal(ticket, tickets_[number - lanes_] + 1);
        tickets_.push_back(ticket);
    }

    int wait(unsigned number, int timeout_ms = -1) const
    {
        return rpma_mirror_flush_wait(m_.get(), number % lanes_, tickets_[number], timeout_ms);
    }

    bool is_on(const target &t, unsigned number) const
    {
        const std::string word = word_of(number);
        return t.bytes(place_of(number), 8) == word && t.bytes(megabyte + place_of(number), 8) == word;
    }

    // Returns whether the target has the flush and all earlier ones of its lane.
    bool are_on(const target &t, unsigned last) const
    {
        const std::uint64_t length = place_of(last + 1);
        const std::string first = t.bytes(0, length), second = t.bytes(megabyte, length);
        for (unsigned number = last % lanes_; number <= last; number += lanes_)
            for (const std::string &bytes : {std::cref(first), std::cref(second)})
                if (bytes.compare(place_of(number), 8, word_of(number)) != 0)
                    return false;
        return true;
    }

private:
    static std::uint64_t place_of(unsigned number) { return number * std::uint64_t{64}; }
    std::string word_of(unsigned number) const
    {
        const std::uint64_t word = round_ << 32 | number;
        return {reinterpret_cast<const char *>(&word), sizeof(word)};
    }

    const opened &m_;
    const unsigned lanes_;
    const std::uint64_t round_;
    std::vector<std::uint64_t> tickets_;
};

using numbers = std::vector<unsigned>;

// Orders of waiting: oldest first, newest first, random, and only the newest one, which must wait for all.
std::vector<numbers> orders_of(unsigned count)
{
    numbers up(count);
    std::iota(up.begin(), up.end(), 0);
    const numbers down(up.rbegin(), up.rend());
    numbers mixed = up;
    std::shuffle(mixed.begin(), mixed.end(), std::mt19937(count));
    return {up, down, mixed, {count - 1}};
}

FIXTURE_TEST(set_of<two>, any_number_in_any_order)
{
    std::uint64_t round = 0;
    for (const unsigned depth : {2U, 3U, 2 * window, 128U}) {
        const opened m(h.cfg({&a, &b}, "lanes 2 " + std::to_string(depth) + "\n").get());
        std::uint64_t last_ticket = 0;
        for (const unsigned count : {1U, 2U, window - 1, window, window + 1, max_tickets - 1, max_tickets,
                     max_tickets + 1, 2 * max_tickets + 1, 3 * max_tickets})
            for (const unsigned lanes : {1U, 2U})
                for (const numbers &order : orders_of(count)) {
                    flushes f(m, lanes, ++round);
                    for (unsigned number = 0; number < count; ++number)
                        f.start();
                    for (const unsigned number : order) {
                        assert_ok(f.wait(number));
                        assert_true(f.are_on(a, number) && f.are_on(b, number));
                    }
                    // A ticket can be waited for repeatedly.
                    for (unsigned number = 0; number < count; ++number)
                        if (number % lanes == (count - 1) % lanes)
                            assert_ok(f.wait(number, 0));
                    last_ticket += (count + lanes - 1) / lanes;
                    assert_int_equal(rpma_mirror_flush_wait(m.get(), 0, last_ticket + 1, 0), RPMA_MIRROR_E_INVAL);
                    assert_int_equal(rpma_mirror_flush_wait(m.get(), 0, 0, 0), RPMA_MIRROR_E_INVAL);
                }
        assert_int_equal(m.state().in_sync, 7);
    }
}

FIXTURE_TEST(over_tcp<open_set<two>>, starts_do_not_wait)
{
    for (const unsigned count : {1U, 2U, window - 1, window}) {
        flushes f(m, 1, count);
        b.stop();
        for (unsigned number = 0; number < count; ++number)
            f.start();
        for (unsigned number = 0; number < count; ++number) {
            assert_int_equal(f.wait(number, 1), RPMA_MIRROR_E_TIMEOUT);
            assert_false(f.is_on(b, number));
        }
        b.resume();
        for (unsigned number = count; number-- > 0;) {
            assert_ok(f.wait(number));
            assert_true(f.are_on(a, number) && f.are_on(b, number));
        }
        assert_int_equal(m.state().in_sync, 7);
    }
}

FIXTURE_TEST(over_tcp<open_set<one>>, progress_does_not_extend_a_wait, "timeouts 3600000 60000\n")
{
    flushes f(m, 1, 1);
    f.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // the target confirms the ticket
    a.stop();
    f.start();
    assert_int_equal(f.wait(1, 1), RPMA_MIRROR_E_TIMEOUT);
    a.resume();
    assert_ok(f.wait(1));
}

FIXTURE_TEST(over_tcp<open_set<one>>, a_canceled_thread_ends_after_its_flush)
{
    a.stop();
    int code = -1;
    std::thread flushing([&] { code = m.flush(0, 1); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    assert_int_equal(pthread_cancel(flushing.native_handle()), 0);
    a.resume();
    flushing.join();
    assert_ok(code);
    m.put(0, "usable");
}

FIXTURE_TEST(over_tcp<open_set<two>>, one_more_waits_for_the_oldest)
{
    flushes f(m, 1, 1);
    std::jthread waker = stop_for(500, b);
    for (unsigned number = 0; number <= window; ++number)
        f.start();
    const bool oldest_is_there = f.is_on(b, 0);
    waker.join();
    assert_true(oldest_is_there);
    assert_ok(f.wait(window));
    assert_true(f.are_on(a, window) && f.are_on(b, window));
    assert_int_equal(m.state().in_sync, 7);
}

FIXTURE_TEST(open_set<two>, a_target_is_lost_with_outstanding_tickets)
{
    std::uint64_t round = 0;
    for (const unsigned count : {1U, 2U, window, window + 1, max_tickets, max_tickets + 1})
        for (const numbers &order : orders_of(count)) {
            flushes f(m, 1, ++round);
            // Flushes that the target has not started are lost.
            if (uses_tcp() && count <= window)
                b.stop();
            for (unsigned number = 0; number < count; ++number)
                f.start();
            b.kill();
            for (const unsigned number : order) {
                assert_ok(f.wait(number));
                assert_true(f.are_on(a, number));
            }
            // Flushes that the target had completed do not cause a check of the target; the next flush does.
            assert_ok(m.flush(0, 8));
            assert_int_equal(m.state().in_sync, 3);
            b.start();
            assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
            assert_int_equal(m.state().in_sync, 7);
            assert_true(f.are_on(b, count - 1));
        }
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
// Events of completion queues that share a channel. Each arming gets one event, in the order of arrival, wherever a
// sender was stopped or killed. The descriptor is readable if and only if an event is pending.
#include "verbs_fixture.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <thread>
#include <unistd.h>

using namespace softrdma;

namespace
{

using side = connected_pair::side;

// A channel with the completion queues of both sides. Each side's WRITEs complete in its own queue.
struct shared_channel {
    verbs_device device;
    completion_channel channel{device.context()};
    connected_pair pair{device, {.events = &channel}};
    side &a = pair.a;
    side &b = pair.b;

    shared_channel() { fcntl(channel.fd, F_SETFL, O_NONBLOCK); }

    // Completes a WRITE of a side and polls its completion.
    void finish(side &s)
    {
        assert_int_equal(s.send(IBV_WR_RDMA_WRITE, 1, s.sge(0, 8), &s == &a ? b : a), 0);
        assert_completion(s.poll(), 1, IBV_WC_SUCCESS);
    }
    bool is_readable() const
    {
        pollfd ready{.fd = channel.fd, .events = POLLIN, .revents = 0};
        return poll(&ready, 1, 0) == 1;
    }
    void expect_event(side &of)
    {
        completion_queue *fired = nullptr;
        assert_true(is_readable());
        assert_int_equal(channel.take(&fired), 0);
        assert_ptr_equal(fired, of.cq.get());
        acknowledge_events(*fired, fired->comp_events_completed, 1);
    }
    // A completion that reports exactly one event.
    void finish_with_event(side &s)
    {
        finish(s);
        expect_event(s);
        expect_nothing();
    }
    void expect_nothing()
    {
        completion_queue *fired = nullptr;
        assert_false(is_readable());
        assert_int_equal(channel.take(&fired), -1);
        assert_int_equal(errno, EAGAIN);
    }
};

void write_event(side &to)
{
    const std::uint64_t one = 1;
    assert_int_equal(write(to.cq->event_descriptor(), &one, sizeof(one)), sizeof(one));
}

DEFINE_TEST(events_come_in_the_order_of_arrival, nullptr, nullptr)
{
    shared_channel c;
    for (unsigned round = 0; round < 8; ++round) {
        side &first = round % 4 < 2 ? c.a : c.b;
        side &second = round % 4 < 2 ? c.b : c.a;
        (round % 2 == 0 ? first : second).cq->arm(false);
        (round % 2 == 0 ? second : first).cq->arm(false);
        c.finish(first);
        c.finish(second);
        c.expect_event(first);
        c.expect_event(second);
        c.expect_nothing();
    }
}

DEFINE_TEST(a_rearmed_queue_keeps_the_order_of_its_events, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(false);
    c.b.cq->arm(false);
    c.finish(c.b);
    c.finish(c.a);
    c.b.cq->arm(false); // its first event is still pending
    c.finish(c.b);
    c.a.cq->arm(false);
    c.expect_event(c.b);
    c.expect_event(c.a);
    c.expect_event(c.b);
    c.expect_nothing();
    c.finish_with_event(c.a);
}

DEFINE_TEST(arming_without_a_completion_reports_no_event, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(false);
    c.finish(c.a);
    c.a.cq->arm(false);
    c.a.cq->arm(true); // no effect, because it is already armed for all
    c.expect_event(c.a);
    c.expect_nothing();
    c.finish_with_event(c.a);
}

DEFINE_TEST(destroying_a_queue_removes_only_its_own_events, nullptr, nullptr)
{
    shared_channel c;
    completion_queue ending(c.device.context(), 4, &c.channel, nullptr);
    assert_true(ending.valid());
    for (unsigned round = 0; round < 3; ++round) {
        ending.arm(false);
        ending.push(ibv_wc{}, false);
        if (round == 1) {
            c.a.cq->arm(false);
            c.finish(c.a);
        }
    }
    ending.drain_events();
    c.expect_event(c.a);
    c.expect_nothing();
}

// The sender was killed after it wrote the event and before it set `signaled`. The next sender writes a second event.
DEFINE_TEST(a_sender_killed_before_it_sets_signaled_loses_no_event, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(false);
    write_event(c.a);
    c.finish_with_event(c.a);
    c.a.cq->arm(false);
    c.expect_nothing();
    c.finish_with_event(c.a);
}

// The sender was stopped before it wrote the event, and continues after the program got the event of another sender.
DEFINE_TEST(a_sender_that_continues_late_reports_no_event, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(false);
    const std::uint64_t late = words_of(c.a).event_due(false);
    assert_int_not_equal(late, 0);
    c.finish(c.a);
    c.expect_event(c.a);
    write_event(c.a);
    words_of(c.a).signaled = late;
    c.expect_nothing();
    c.a.cq->arm(false);
    c.expect_nothing();
    words_of(c.a).signaled = late;
    c.finish_with_event(c.a);
}

// The event of a late sender counts as the event of the current arming.
DEFINE_TEST(a_late_event_is_the_only_event_of_the_arming, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(false);
    write_event(c.a);
    c.expect_event(c.a);
    c.finish(c.a);
    c.expect_nothing();
    c.a.cq->arm(false);
    c.finish_with_event(c.a);
}

DEFINE_TEST(only_a_solicited_completion_fires_a_solicited_arming, nullptr, nullptr)
{
    shared_channel c;
    c.a.cq->arm(true);
    c.finish(c.a);
    c.expect_nothing();
    c.a.cq->arm(false); // also for unsolicited completions
    c.finish_with_event(c.a);
}

// The release must report the message, because no other event wakes the program.
DEFINE_TEST(a_held_message_is_reported_on_release, nullptr, nullptr)
{
    shared_channel c;
    receive_queue &ring = c.b.qp->receives();
    assert_int_equal(c.b.post_receive(7, 0, 8), 0);
    c.b.cq->arm(false);
    ring.hold_delivered();
    deliver(ring);
    assert_nothing(c.b);
    ring.release_delivered();
    c.expect_event(c.b);
    assert_completion(c.b.poll(), 7, IBV_WC_SUCCESS);
    c.b.cq->arm(false);
    ring.hold_delivered();
    ring.release_delivered();
    c.expect_nothing();
}

// The sender was stopped before it announced the message. A queue pair that needs the receive detects the message.
DEFINE_TEST(an_unannounced_message_is_found_when_its_receive_is_needed, nullptr, nullptr)
{
    verbs_device device;
    shared_receive_queue srq(&device.pd, {.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}});
    completion_channel channel(device.context());
    fcntl(channel.fd, F_SETFL, O_NONBLOCK);
    {
        connected_pair p(device, {.srq = &srq, .events = &channel});
        receive_queue &ring = p.b.qp->receives();
        ring.borrow();
        assert_int_equal(post_one(srq, 7, p.b.sge(0, 8)), 0);
        p.b.cq->arm(false);
        deliver(ring);
        assert_nothing(p.b);
        assert_false(srq.take().has_value());
        completion_queue *fired = nullptr;
        assert_int_equal(channel.take(&fired), 0);
        assert_ptr_equal(fired, p.b.cq.get());
        assert_completion(p.b.poll(), 7, IBV_WC_SUCCESS);
        ring.return_lent(lent::all);
    }
}

std::atomic<bool> interrupted{false};

// Returns true if the wait lasted until the event, and false if the signal ended it.
bool wait_lasts(int flags)
{
    shared_channel c;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = flags;
    assert_int_equal(sigaction(SIGUSR1, &action, nullptr), 0);
    interrupted.store(false);
    fcntl(c.channel.fd, F_SETFL, 0);
    c.a.cq->arm(false);
    int result = 0;
    int error = 0;
    std::atomic<bool> over{false};
    std::thread waiting([&] {
        completion_queue *fired = nullptr;
        result = c.channel.take(&fired);
        error = errno;
        over.store(true);
    });
    while (!interrupted.load() || (flags == 0 && !over.load())) { // the thread might not wait yet
        pthread_kill(waiting.native_handle(), SIGUSR1);
        usleep(1000);
    }
    c.finish(c.a);
    waiting.join();
    assert_true(result == 0 || error == EINTR);
    signal(SIGUSR1, SIG_DFL);
    return result == 0;
}

DEFINE_TEST(a_signal_ends_the_wait_unless_sa_restart_is_set, nullptr, nullptr)
{
    assert_true(wait_lasts(SA_RESTART));
    assert_false(wait_lasts(0));
}

} // namespace

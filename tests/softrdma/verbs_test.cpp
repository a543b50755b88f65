// SPDX-License-Identifier: BSD-3-Clause
// Verbs objects without a network: states and access rights of a queue pair; completion queues, with entries that
// messages of peers use; and events of completion queues that share a channel. Each arming gets one event, in the order
// of arrival, wherever a sender was stopped or killed. The descriptor is readable if and only if an event is pending.
#include "verbs_fixture.hpp"
#include "verbs/number_table.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <thread>
#include <unistd.h>

using namespace softrdma;

namespace
{

int enter(queue_pair &qp, ibv_qp_state state)
{
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return qp.modify(attr, IBV_QP_STATE);
}

FIXTURE_TEST(device_with_pair, an_error_flushes_both_queues)
{
    assert_int_equal(p.a.post_receive(10, 0, 8), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_ERR), 0);
    assert_completion(p.a.poll(), 1, IBV_WC_WR_FLUSH_ERR);
    assert_completion(p.a.poll(), 10, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.a.send(IBV_WR_SEND, 2, p.a.sge(0, 8), p.b), 0);
    assert_completion(p.a.poll(), 2, IBV_WC_WR_FLUSH_ERR);
    assert_nothing(p.a);
}

FIXTURE_TEST(device_with_pair, a_reset_discards_posted_requests)
{
    assert_int_equal(p.a.post_receive(10, 0, 8), 0);
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0);
    assert_int_equal(enter(*p.a.qp, IBV_QPS_RESET), 0);
    assert_nothing(p.a);
    make_ready_to_send(*p.a.qp, p.all_access, 7);
    assert_nothing(p.a);
    assert_int_equal(p.b.send(IBV_WR_SEND, 2, p.b.sge(0, 8), p.a), 0);
    assert_nothing(p.b); // the receive was discarded, too
}

std::uint64_t word(const connected_pair::side &s, std::size_t offset = 0)
{
    std::uint64_t value = 0;
    memcpy(&value, s.memory.data() + offset, sizeof(value));
    return value;
}

void set_word(connected_pair::side &s, std::uint64_t value)
{
    memcpy(s.memory.data(), &value, sizeof(value));
}

// Covers missing access rights of the queue pair and of the region, and a region that is too short.
DEFINE_TEST(requests_without_access_rights_are_rejected, nullptr, nullptr)
{
    verbs_device device;
    const auto refused = [&](const connected_pair::options &o, ibv_wr_opcode opcode, std::uint32_t length) {
        connected_pair p(device, o);
        set_word(p.a, 3);
        set_word(p.b, 4);
        assert_int_equal(p.a.send(opcode, 1, p.a.sge(0, length), p.b), 0);
        assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, 2, p.a.sge(0, 8), p.b), 0);
        assert_completion(p.a.poll(), 1, IBV_WC_REM_ACCESS_ERR);
        assert_completion(p.a.poll(), 2, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(word(p.a), 3);
        assert_int_equal(word(p.b), 4);
    };
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        refused({.peer_access = IBV_ACCESS_LOCAL_WRITE}, opcode, 8);
        refused({.peer_grants = 0}, opcode, 8);
    }
    connected_pair p(device);
    ibv_sge two[2] = {p.a.sge(0, 4096), p.a.sge(0, 1)};
    ibv_send_wr wr{};
    wr.sg_list = two;
    wr.num_sge = 2;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(p.b.memory.data()), p.b.mr->rkey};
    ibv_send_wr *bad = nullptr;
    assert_int_equal(p.a.qp->post_send(&wr, &bad), 0);
    assert_completion(p.a.poll(), 0, IBV_WC_REM_ACCESS_ERR);
}

FIXTURE_TEST(device_with_pair, the_loss_of_an_earlier_path_is_ignored)
{
    const auto earlier = std::make_shared<idle_path>(), present = std::make_shared<idle_path>();
    p.a.qp->attach(earlier);
    p.a.qp->attach(nullptr);
    p.a.qp->path_lost(earlier.get());
    assert_int_equal(p.a.send(IBV_WR_SEND, 1, p.a.sge(0, 8), p.b), 0); // waits for a receive
    p.a.qp->attach(present);
    p.a.qp->path_lost(earlier.get());
    assert_nothing(p.a);
    p.a.qp->path_lost(present.get());
    assert_completion(p.a.poll(), 1, IBV_WC_RETRY_EXC_ERR);
}

FIXTURE_TEST(device_with_pair, a_number_is_found_until_its_queue_pair_is_destroyed)
{
    const std::uint32_t number = p.a.qp->qp_base.qp_num;
    assert_ptr_equal(number_table::instance().find(number).get(), p.a.qp.get());
    assert_ptr_not_equal(number_table::instance().find(p.b.qp->qp_base.qp_num).get(), p.a.qp.get());
    p.a.qp->destroy();
    assert_null(number_table::instance().find(number).get());
    p.a.qp.reset();
}

// Peers were killed after they had counted messages and before they delivered them.
DEFINE_TEST(undelivered_messages_of_killed_peers_use_no_entry, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.cqe = 4}); // fewer entries than requests, so that entries are counted
    for (unsigned round = 0; round < 3; ++round) {
        words_of(p.a).used.fetch_add(4);
        for (std::uint64_t i = 1; i <= 4; ++i)
            assert_int_equal(p.a.send(IBV_WR_RDMA_WRITE, i, p.a.sge(0, 8), p.b), 0);
        assert_int_equal(words_of(p.a).used, 4);
        for (std::uint64_t i = 1; i <= 4; ++i)
            assert_completion(p.a.poll(), i, IBV_WC_SUCCESS);
        assert_int_equal(words_of(p.a).used, 0);
    }
    assert_int_equal(device.next_event(), -1);
}

// Delivered messages occupy entries until they are polled.
DEFINE_TEST(delivered_messages_use_entries, nullptr, nullptr)
{
    verbs_device device;
    connected_pair p(device, {.cqe = 4});
    receive_queue &ring = p.b.qp->receives();
    ring.borrow();
    words_of(p.b).used.fetch_add(4); // one of these is delivered below
    assert_int_equal(p.b.post_receive(7, 0, 8), 0);
    deliver(ring);
    words_of(p.b).announce(ring.shared().cq_bit);
    for (std::uint64_t i = 1; i <= 3; ++i)
        assert_int_equal(p.b.send(IBV_WR_RDMA_WRITE, i, p.b.sge(0, 8), p.a), 0);
    assert_int_equal(device.next_event(), -1);
    assert_int_equal(p.b.send(IBV_WR_RDMA_WRITE, 4, p.b.sge(0, 8), p.a), 0);
    assert_int_equal(device.next_event(), IBV_EVENT_CQ_ERR);
    device.later.run();
}

// Each thread sends to the other and polls for its messages.
DEFINE_TEST(two_threads_can_use_both_ends, nullptr, nullptr)
{
    constexpr std::uint64_t messages = 2000;
    verbs_device device;
    connected_pair p(device);
    const auto talk = [&](connected_pair::side &own, const connected_pair::side &other) {
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        std::uint64_t posted = 0;
        while (received < messages || sent < messages) {
            for (; posted - received < 4 && posted < messages; ++posted) {
                if (own.post_receive(posted, 8, 8) != 0)
                    return false;
            }
            if (sent < messages && own.send(IBV_WR_SEND, sent, own.sge(0, 8), other) == 0)
                ++sent;
            for (auto wc = own.poll(); wc; wc = own.poll()) {
                if (wc->status != IBV_WC_SUCCESS || (wc->opcode == IBV_WC_RECV && wc->wr_id != received))
                    return false;
                received += wc->opcode == IBV_WC_RECV ? 1u : 0u;
            }
        }
        while (own.qp->sending())
            own.poll();
        return true;
    };
    bool other_good = false;
    std::thread other([&] { other_good = talk(p.b, p.a); });
    const bool good = talk(p.a, p.b);
    other.join();
    assert_true(good);
    assert_true(other_good);
}

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

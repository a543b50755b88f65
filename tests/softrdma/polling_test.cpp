// SPDX-License-Identifier: BSD-3-Clause
// White-box: polls of a completion queue also poll the network. Otherwise only the progress thread would, and a busy
// machine delays that thread while the program polls.
#include "progress/polling.hpp"
#include "starved_progress.hpp"
#include "verbs/cq.hpp"

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>

extern "C" {
#include "fixture.h"
}

using namespace softrdma;

namespace
{

std::atomic<unsigned> sleeps{0};
std::atomic<unsigned> slow_yields{0}; // number of the next calls of sched_yield() that take long

} // namespace

// Replaces the function of the C library. A long call means that another process uses the processor.
extern "C" int sched_yield() noexcept
{
    if (slow_yields.load() > 0) {
        slow_yields.fetch_sub(1);
        usleep(1000);
    }
    return 0;
}

extern "C" int ppoll(pollfd *, nfds_t, const timespec *, const sigset_t *)
{
    sleeps.fetch_add(1);
    usleep(100);
    return 0;
}

namespace
{

void skip_over_tcp()
{
    if (is_over("tcp"))
        skip();
}

int users_of_network(const side &s)
{
    return cq_of(s.cq).network_users.load();
}

// The sides agree on shared memory only after the connection is established.
void await_shared_memory(const pair &p)
{
    AWAIT(users_of_network(p.client) == 0 && users_of_network(p.server) == 0);
}

void send(pair &p, std::uint32_t length)
{
    assert_int_equal(post_shared_receive(p.srq, &p.server, 1, 0, p.server.size), 0);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 2, 0, length, nullptr, 0, 0), 0);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 1, IBV_WC_SUCCESS);
}

// Long messages use the network. The next messages may use it too, until the queue is empty.
TEST(only_long_messages_for_a_shared_queue_use_the_network)
{
    skip_over_tcp();
    options shared{};
    shared.server_srq = true;
    shared.size = 20000;
    OPEN_PAIR(p, &shared);
    await_shared_memory(p);
    send(p, 8);
    assert_int_equal(users_of_network(p.server), 0);
    send(p, 20000);
    assert_true(users_of_network(p.server) > 0);
    for (int i = 0; i < 1024; ++i)
        send(p, 8);
    assert_int_equal(users_of_network(p.server), 0);
}

void connect_to(const side &s, ibv_qp *qp, std::uint32_t peer)
{
    ibv_qp_attr attr = connection_to(s.id->verbs, peer);
    attr.timeout = 0; // no timeout
    connect_qp(qp, attr);
}

// A thread that polls under SCHED_FIFO never yields its processor to the progress thread.
TEST(polls_alone_connect_queue_pairs)
{
    OPEN_PAIR(p, nullptr);
    ibv_cq *cq = ibv_create_cq(p.client.id->verbs, 16, nullptr, nullptr, 0);
    ibv_qp *from = create_plain_qp(p.client.pd, cq, IBV_QPT_RC, 1);
    ibv_qp *to = create_plain_qp(p.client.pd, cq, IBV_QPT_RC, 1);
    {
        const starved_progress starved;
        connect_to(p.client, from, to->qp_num);
        connect_to(p.client, to, from->qp_num);
        assert_int_equal(post_empty_receive(to, 1), 0);
        assert_int_equal(post_empty_send(from), 0);
        for (int i = 0; i < 2; ++i)
            assert_int_equal(next_completion(cq).status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_qp(from), 0);
    assert_int_equal(ibv_destroy_qp(to), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

// Covers a program whose connections all use shared memory.
TEST(polls_alone_serve_the_network)
{
    skip_over_tcp();
    OPEN_PAIR(p, nullptr);
    await_shared_memory(p);
    {
        const starved_progress starved;
        assert_int_equal(rdma_disconnect(p.client.id), 0);
        pollfd event{.fd = p.server.channel->fd, .events = POLLIN, .revents = 0};
        ibv_wc wc{};
        unsigned polls = 0;
        while (poll(&event, 1, 0) == 0 && ++polls < 1000000)
            assert_int_equal(ibv_poll_cq(p.server.cq, 1, &wc), 0);
        assert_int_equal(event.revents, POLLIN);
    }
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
}

// Covers a program that requests connection events in a loop.
TEST(requests_for_events_alone_serve_the_network)
{
    skip_over_tcp();
    OPEN_PAIR(p, nullptr);
    assert_int_equal(fcntl(p.server.channel->fd, F_SETFL, O_NONBLOCK), 0);
    {
        const starved_progress starved;
        assert_int_equal(rdma_disconnect(p.client.id), 0);
        rdma_cm_event *event = nullptr;
        for (unsigned i = 0; i < 100000 && event == nullptr; ++i)
            rdma_get_cm_event(p.server.channel, &event);
        assert_non_null(event);
        assert_int_equal(event->event, RDMA_CM_EVENT_DISCONNECTED);
        assert_int_equal(rdma_ack_cm_event(event), 0);
    }
}

// Empty polls yield the processor. One call in 4096 takes long, as on a machine with other busy processes.
TEST(empty_polls_over_tcp_rarely_sleep)
{
    if (!is_over("tcp"))
        skip();
    constexpr unsigned polls = 1 << 17;
    OPEN_PAIR(p, nullptr);
    sleeps = 0;
    for (unsigned i = 0; i < polls; ++i) {
        ibv_wc wc{};
        if (i % 4096 == 0)
            slow_yields = 1;
        assert_int_equal(ibv_poll_cq(p.server.cq, 1, &wc), 0);
    }
    slow_yields = 0;
    assert_true(sleeps < polls / 128);
}

// Simulates `polls` polls of 50 ns each. A check takes 1 us more, and each pause 3 ms, because other processes use the
// processor. Returns the duration in ns.
std::int64_t simulate_wait(polling &waits, unsigned polls, unsigned &checks)
{
    std::int64_t now = 1'000'000'000;
    const std::int64_t start = now;
    for (unsigned i = 0; i < polls; ++i) {
        now += 50;
        if (waits.skips())
            continue;
        ++checks;
        const std::int64_t began = now;
        now += 1000;
        if (const auto how = waits.on_empty_poll(began); how != polling::pause::none) {
            now += 3'000'000;
            waits.paused(how, 3'000'000);
        }
    }
    return now - start;
}

TEST(pauses_take_a_bounded_part_of_a_wait)
{
    constexpr unsigned polls = 1 << 20;
    polling waits;
    unsigned checks = 0;
    const std::int64_t duration = simulate_wait(waits, polls, checks);
    const std::int64_t polled = polls * 50LL + checks * 1000LL;
    assert_true(polled < 2 * polls * 50LL); // at most twice the time without checks
    assert_true(duration < polled + polled / 4 + 9'000'000);
}

TEST(short_waits_check_with_each_poll)
{
    polling waits;
    for (int i = 0; i < 10; ++i) {
        unsigned checks = 0;
        simulate_wait(waits, 1000, checks);
        assert_int_equal(checks, 1000);
        waits.on_input();
    }
}

// A thread that polls rarely does not pause.
TEST(rare_polls_check_each_time)
{
    polling waits;
    for (std::int64_t now = 1'000'000; now < 100'000'000; now += 10'000) {
        assert_false(waits.skips());
        waits.on_empty_poll(now);
    }
}

} // namespace

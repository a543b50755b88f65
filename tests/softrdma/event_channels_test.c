/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor of events is readable exactly as long as there is an event to read: programs that poll() it and then
 * read rely on that. */
#include "fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

static void expect_readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, time_limit_ms), 1);
}

static void expect_unreadable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0);
}

static void a_channel_whose_events_moved_is_not_readable(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, NULL);
    struct rdma_event_channel *first = p.server.channel;
    assert_int_equal(rdma_disconnect(p.client.id), 0);
    expect_readable(first->fd);
    p.server.channel = rdma_create_event_channel();
    assert_int_equal(rdma_migrate_id(p.server.id, p.server.channel), 0);
    expect_unreadable(first->fd);
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    expect_unreadable(p.server.channel->fd);
    rdma_destroy_event_channel(first);
    close_pair(&p);
}

static void events_of_other_ids_stay_readable(void **state)
{
    (void)state;
    struct rdma_event_channel *first = rdma_create_event_channel();
    struct rdma_event_channel *second = rdma_create_event_channel();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_cm_id *ids[2];
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(rdma_create_id(first, &ids[i], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 1000), 0);
    }
    assert_int_equal(rdma_migrate_id(ids[0], second), 0);
    for (int i = 0; i < 2; ++i) {
        struct rdma_cm_event *event = next_event(i == 0 ? second : first, RDMA_CM_EVENT_ADDR_RESOLVED);
        assert_ptr_equal(event->id, ids[i]);
        assert_int_equal(rdma_ack_cm_event(event), 0);
    }
    expect_unreadable(first->fd);
    expect_unreadable(second->fd);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(rdma_destroy_id(ids[i]), 0);
    rdma_destroy_event_channel(first);
    rdma_destroy_event_channel(second);
}

static void a_channel_whose_events_were_dropped_is_not_readable(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, NULL);
    assert_int_equal(rdma_disconnect(p.client.id), 0);
    expect_readable(p.server.channel->fd);
    rdma_destroy_qp(p.server.id);
    assert_int_equal(rdma_destroy_id(p.server.id), 0);
    p.server.id = NULL;
    expect_unreadable(p.server.channel->fd);
    close_pair(&p);
}

static void requests_that_go_with_their_listener_leave_nothing(void **state)
{
    (void)state;
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    connect_client(&p, NULL);
    expect_readable(p.listen_channel->fd);
    assert_int_equal(rdma_destroy_id(p.listener), 0);
    p.listener = NULL;
    expect_unreadable(p.listen_channel->fd);
    close_pair(&p);
}

static void an_asynchronous_event_goes_with_its_object(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, NULL);
    const int fd = p.server.id->verbs->async_fd;
    p.server.mr->rkey ^= 1;
    assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p.server, 0, 0), 0);
    expect_completion(p.client.cq, 1, IBV_WC_REM_ACCESS_ERR);
    expect_readable(fd);
    rdma_destroy_qp(p.server.id);
    expect_unreadable(fd);
    close_pair(&p);
}

static void a_completion_event_goes_with_its_queue(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, NULL);
    struct ibv_comp_channel *channel = p.server.completions;
    assert_non_null(channel);
    assert_int_equal(ibv_req_notify_cq(p.server.cq, 0), 0);
    assert_int_equal(post_receive(&p.server, 1, 0, 64), 0);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0), 0);
    expect_readable(channel->fd);
    rdma_destroy_qp(p.server.id);
    assert_int_equal(ibv_destroy_cq(p.server.cq), 0);
    p.server.cq = NULL;
    expect_unreadable(channel->fd);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_channel_whose_events_moved_is_not_readable),
            cmocka_unit_test(events_of_other_ids_stay_readable),
            cmocka_unit_test(a_channel_whose_events_were_dropped_is_not_readable),
            cmocka_unit_test(requests_that_go_with_their_listener_leave_nothing),
            cmocka_unit_test(an_asynchronous_event_goes_with_its_object),
            cmocka_unit_test(a_completion_event_goes_with_its_queue),
    };
    return cmocka_run_group_tests_name("event_channels", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that exit, are killed, fork or sleep. Each test forks its processes before any verbs call. */
#include "remote.h"

#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <sys/wait.h>

static const struct server_plan sleeps = {0};

static void exit_after_one_message(struct pair *p)
{
    expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    _exit(0);
}

static const struct server_plan exits_after_one = {.receives = 1, .act = exit_after_one_message};

TEST_IN_OWN_PROCESS(a_killed_peer_fails_outstanding_operations)
{
    MEET_SERVER(r, &sleeps, NULL);
    struct side *c = &r.pair.client;
    assert_int_equal(post_receive(c, 9, 0, 8), 0);
    suspend_server(&r); /* the requests must have no response when it dies */
    assert_int_equal(post(c, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0); /* the server has posted no receive */
    assert_int_equal(post(c, IBV_WR_RDMA_READ, 2, 0, 8, &r.target, 0, 0), 0);
    kill(r.pid, SIGKILL);
    expect_completion(c->cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_completion(c->cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_completion(c->cq, 9, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(c->id), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
}

static void send_to_one_that_exits(void)
{
    MEET_SERVER(r, &exits_after_one, NULL);
    post_and_expect(&r.pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, IBV_WC_SUCCESS);
}

/* Checks a process that has forked again, with descriptors that it has opened itself. */
static bool grandchild_keeps_descriptors(void)
{
    int own[8];
    for (size_t i = 0; i < 8; ++i)
        own[i] = dup(STDERR_FILENO);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        for (size_t i = 0; i < 8; ++i)
            if (fcntl(own[i], F_GETFD) < 0)
                _exit(1);
        _exit(0);
    }
    int status = 0;
    return waitpid(grandchild, &status, 0) == grandchild && status == 0;
}

static bool forked;

/* Called by the leak detector of sanitized builds. A child has the memory that only other threads' stacks referenced at
 * the fork, but not these stacks. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return forked;
}

/* Opens a device in this process, with both ends of a connection. */
static void use_a_fresh_device(void)
{
    OPEN_PAIR(p, NULL);
    fill(p.client.memory, 64, 5);
    assert_int_equal(post_receive(&p.server, 1, 0, 64), 0);
    post_and_expect(&p.client, IBV_WR_SEND, 2, 0, 64, NULL, 0, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(p.server.memory, p.client.memory, 64);
}

static bool refuses_what_is_inherited(struct pair *p)
{
    struct side *c = &p->client;
    struct ibv_wc wc;
    struct rdma_cm_id *id = NULL;
    struct rdma_cm_event *event = NULL;
    return post(c, IBV_WR_RDMA_WRITE, 1, 0, 8, c, 0, 0) == ENODEV && post_empty_receive(c->qp, 1) == ENODEV &&
           ibv_poll_cq(c->cq, 1, &wc) < 0 && ibv_req_notify_cq(c->cq, 0) == ENODEV && ibv_dereg_mr(c->mr) == ENODEV &&
           ibv_destroy_qp(c->qp) == ENODEV && ibv_alloc_pd(c->id->verbs) == NULL && rdma_disconnect(c->id) == -1 &&
           errno == ENODEV && rdma_get_cm_event(c->channel, &event) == -1 && errno == ENODEV &&
           rdma_create_id(c->channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == ENODEV;
}

TEST_IN_OWN_PROCESS(a_forked_child_is_refused_and_harmless)
{
    MEET_SERVER(r, &sleeps, NULL);
    struct side *c = &r.pair.client;
    pid_t child = fork();
    if (child == 0) {
        forked = true;
        if (!refuses_what_is_inherited(&r.pair) || !grandchild_keeps_descriptors())
            exit(1);
        use_a_fresh_device();
        exit(0);
    }
    assert_int_equal(exit_code_of(child), 0);
    post_and_expect(c, IBV_WR_RDMA_WRITE, 2, 0, 8, &r.target, 0, IBV_WC_SUCCESS);
}

/* Daemons do this if they list devices before they detach. */
TEST_IN_OWN_PROCESS(a_child_reopens_the_device)
{
    assert_int_equal(open_the_device(NULL), 0);
    assert_int_equal(close_the_device(NULL), 0);
    use_a_fresh_device();
    pid_t child = fork();
    if (child == 0) {
        forked = true;
        use_a_fresh_device();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            use_a_fresh_device();
            exit(0);
        }
        assert_int_equal(exit_code_of(grandchild), 0);
        use_a_fresh_device(); /* again, after it has forked a child */
        exit(0);
    }
    use_a_fresh_device();
    assert_int_equal(exit_code_of(child), 0);
}

static void *open_first(void *unused)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return context;
}

static useconds_t opening_delay;

/* The fork happens while another thread creates the first object of the process. */
static void fork_while_opening(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_first, NULL), 0);
    usleep(opening_delay);
    pid_t child = fork();
    if (child == 0) {
        forked = true;
        alarm(time_limit_ms / 1000); /* ends a child that hangs */
        exit(open_first(NULL) != NULL ? 0 : 1);
    }
    assert_int_equal(exit_code_of(child), 0);
    void *context = NULL;
    assert_int_equal(pthread_join(thread, &context), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

TEST_IN_OWN_PROCESS(a_process_may_just_leave)
{
    MEET_SERVER(r, &sleeps, NULL);
    kill_child(r.pid);
    exit(0); /* the progress thread is running and all objects are open */
}

TEST_IN_OWN_PROCESS(a_process_that_does_not_call_is_untouched)
{
    const unsigned threads = entries_in("/proc/self/task", "");
    const unsigned before = entries_in("/proc/self/fd", "");
    struct ibv_device **list = ibv_get_device_list(NULL);
    ibv_free_device_list(list);
    assert_int_equal(entries_in("/proc/self/task", ""), threads);
    assert_int_equal(entries_in("/proc/self/fd", ""), before);
    rdma_destroy_event_channel(rdma_create_event_channel());
    assert_int_equal(entries_in("/proc/self/fd", ""), before);
}

TEST(a_process_can_fork_while_the_device_is_opened)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("a sanitizer's allocator stays locked in a child that is made while another thread allocates");
#endif
    for (opening_delay = 0; opening_delay < 600; opening_delay += 15)
        in_own_process(fork_while_opening);
}

TEST(a_message_is_acknowledged_before_its_receiver_can_exit)
{
    for (unsigned i = 0; i < 20; ++i)
        in_own_process(send_to_one_that_exits);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
    puts("skipped: ThreadSanitizer does not let a child of a process with threads start a thread of its own");
    return 77;
#endif
    return run_registered_tests();
}

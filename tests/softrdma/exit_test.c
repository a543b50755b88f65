/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that end, are killed, fork or sleep. Each test runs its processes forked before any verbs call. */
#include "remote.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct server_plan sleeps = {0};

static void exit_after_one_message(struct pair *p)
{
    expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    _exit(0);
}

static const struct server_plan exits_after_one = {.receives = 1, .act = exit_after_one_message};

static void write_to_a_sleeper(void)
{
    struct remote r;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    fill(r.pair.client.memory, 4096, 3);
    assert_int_equal(post(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 4096, &r.target, 0, 0), 0);
    expect_completion(r.pair.client.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(r.page, r.pair.client.memory, 4096); /* a completion means: placed */
    stop_server(&r);
}

static void survive_a_killed_peer(void)
{
    struct remote r;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    struct side *c = &r.pair.client;
    assert_int_equal(post_receive(c, 9, 0, 8), 0);
    suspend_server(&r); /* so that the requests are still unanswered when it dies */
    assert_int_equal(post(c, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0); /* it has posted no receive */
    assert_int_equal(post(c, IBV_WR_RDMA_READ, 2, 0, 8, &r.target, 0, 0), 0);
    kill(r.pid, SIGKILL);
    expect_completion(c->cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_completion(c->cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_completion(c->cq, 9, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(c->id), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    stop_server(&r);
}

static void notice_a_killed_peer_while_idle(void)
{
    struct remote r;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    kill(r.pid, SIGKILL);
    struct side *c = &r.pair.client;
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(post(c, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, 0), 0);
    expect_completion(c->cq, 1, IBV_WC_RETRY_EXC_ERR);
    stop_server(&r);
}

static void send_to_one_that_exits(void)
{
    struct remote r;
    start_server(&r, &exits_after_one, NULL);
    meet_server(&r);
    assert_int_equal(post(&r.pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0), 0);
    expect_completion(r.pair.client.cq, 1, IBV_WC_SUCCESS);
    stop_server(&r);
}

/* Of a process that has forked once more, with descriptors it has opened itself. */
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

/* Asked by the leak detector of sanitized builds: of what other threads had on their stacks when a process forked, its
 * child has the memory but not the stacks. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return forked;
}

static void fork_after_use(void)
{
    struct remote r;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    struct side *c = &r.pair.client;
    pid_t child = fork();
    if (child == 0) {
        forked = true;
        struct ibv_wc wc;
        const bool refused = post(c, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, 0) == ENODEV &&
                             ibv_poll_cq(c->cq, 1, &wc) < 0 && ibv_get_device_list(NULL) == NULL &&
                             rdma_disconnect(c->id) == -1 && errno == ENODEV;
        exit(refused && grandchild_keeps_descriptors() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(post(c, IBV_WR_RDMA_WRITE, 2, 0, 8, &r.target, 0, 0), 0);
    expect_completion(c->cq, 2, IBV_WC_SUCCESS);
    stop_server(&r);
}

static void leave_without_cleaning_up(void)
{
    struct remote r;
    start_server(&r, &sleeps, NULL);
    meet_server(&r);
    kill(r.pid, SIGKILL);
    waitpid(r.pid, NULL, 0);
    exit(0); /* with the agent at work and everything open */
}

static unsigned entries_in(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    unsigned count = 0;
    while (readdir(dir) != NULL)
        ++count;
    closedir(dir);
    return count;
}

static void do_nothing_before_the_first_call(void)
{
    const unsigned threads = entries_in("/proc/self/task");
    const unsigned before = entries_in("/proc/self/fd");
    struct ibv_device **list = ibv_get_device_list(NULL);
    ibv_free_device_list(list);
    assert_int_equal(entries_in("/proc/self/task"), threads);
    assert_int_equal(entries_in("/proc/self/fd"), before);
    rdma_destroy_event_channel(rdma_create_event_channel());
    assert_int_equal(entries_in("/proc/self/fd"), before);
}

static void connections_leave_no_descriptors(void)
{
    struct pair p;
    open_pair(&p, NULL);
    close_pair(&p);
    usleep(300000);
    const unsigned before = entries_in("/proc/self/fd");
    for (unsigned i = 0; i < 20; ++i) {
        open_pair(&p, NULL);
        close_pair(&p);
    }
    for (unsigned i = 0; i < 100 && entries_in("/proc/self/fd") > before; ++i)
        usleep(20000);
    assert_int_equal(entries_in("/proc/self/fd"), before);
}

#define own_process(name, body)                                                                                        \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        in_own_process(body);                                                                                          \
    }

own_process(a_sleeping_process_is_written, write_to_a_sleeper) own_process(a_killed_peer_ends_what_is_outstanding,
        survive_a_killed_peer) own_process(a_killed_peer_is_noticed_while_idle, notice_a_killed_peer_while_idle)
        own_process(a_forked_child_is_refused_and_harmless, fork_after_use)
                own_process(a_process_may_just_leave, leave_without_cleaning_up)
                        own_process(a_process_that_does_not_call_is_untouched, do_nothing_before_the_first_call)
                                own_process(closed_connections_leave_nothing_behind, connections_leave_no_descriptors)

                                        static void a_message_is_acknowledged_before_its_receiver_can_exit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; ++i)
        in_own_process(send_to_one_that_exits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_process_that_does_not_call_is_untouched),
            cmocka_unit_test(a_sleeping_process_is_written),
            cmocka_unit_test(a_killed_peer_ends_what_is_outstanding),
            cmocka_unit_test(a_killed_peer_is_noticed_while_idle),
            cmocka_unit_test(a_message_is_acknowledged_before_its_receiver_can_exit),
            cmocka_unit_test(a_forked_child_is_refused_and_harmless),
            cmocka_unit_test(a_process_may_just_leave),
            cmocka_unit_test(closed_connections_leave_nothing_behind),
    };
    return cmocka_run_group_tests_name("exit", tests, NULL, NULL);
}

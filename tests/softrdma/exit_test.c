/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that end, are killed, fork or sleep. Each test runs its processes forked before any verbs call. */
#include "fixture.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the server tells its parent. */
struct greeting {
    uint16_t port; /* network order */
    uint64_t addr;
    uint32_t rkey;
};

enum server_kind {
    sleeps,          /* accepts, tells its memory and sleeps in pause() */
    exits_after_one, /* receives one message and calls _exit at once */
};

/* Offers a page of shared memory, so that the parent can look into it. */
static void serve(enum server_kind kind, uint8_t *page, int out)
{
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    struct greeting greeting = {.port = rdma_get_src_port(p.listener)};
    if (write(out, &greeting, sizeof(greeting)) != sizeof(greeting))
        _exit(1);
    struct rdma_cm_event *request = take_request(&p);
    create_queues(&p.server, NULL, &(struct options){.size = 4096, .server_memory = page}, true);
    if (kind == exits_after_one)
        assert_int_equal(post_receive(&p.server, 1, 0, 64), 0);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    struct rdma_conn_param param = {.responder_resources = 16, .initiator_depth = 16, .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(p.server.id, &param), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    greeting = (struct greeting){.addr = (uintptr_t)page, .rkey = p.server.mr->rkey};
    if (write(out, &greeting, sizeof(greeting)) != sizeof(greeting))
        _exit(1);
    if (kind == exits_after_one) {
        expect_completion(p.server.cq, 1, IBV_WC_SUCCESS);
        _exit(0);
    }
    for (;;)
        pause();
}

struct remote {
    pid_t pid;
    int in;
    uint8_t *page;
    struct pair pair; /* only the client side is used */
    struct side target;
    struct ibv_mr mr;
};

static void start(struct remote *r, enum server_kind kind)
{
    memset(r, 0, sizeof(*r));
    int ends[2];
    r->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(r->page, MAP_FAILED);
    assert_int_equal(pipe(ends), 0);
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0) {
        close(ends[0]);
        serve(kind, r->page, ends[1]);
    }
    close(ends[1]);
    r->in = ends[0];
}

static void meet(struct remote *r)
{
    struct greeting greeting;
    assert_int_equal(read(r->in, &greeting, sizeof(greeting)), sizeof(greeting));
    struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = greeting.port};
    struct side *c = &r->pair.client;
    c->channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to, 1000), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(c->id, 1000), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    create_queues(c, NULL, NULL, false);
    connect_client(&r->pair, NULL);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(read(r->in, &greeting, sizeof(greeting)), sizeof(greeting));
    r->mr.rkey = greeting.rkey;
    r->target = (struct side){.memory = (uint8_t *)(uintptr_t)greeting.addr, .mr = &r->mr};
}

static void stop(struct remote *r)
{
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    close(r->in);
    munmap(r->page, 4096);
    close_pair(&r->pair);
}

/* Runs a test in a process of its own, so that its fork comes before any verbs call. */
static void in_own_process(void (*test)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        test();
        exit(0); /* a failing assertion has ended the process with another code */
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void write_to_a_sleeper(void)
{
    struct remote r;
    start(&r, sleeps);
    meet(&r);
    fill(r.pair.client.memory, 4096, 3);
    assert_int_equal(post(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 4096, &r.target, 0, 0), 0);
    expect_completion(r.pair.client.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(r.page, r.pair.client.memory, 4096); /* a completion means: placed */
    stop(&r);
}

static void survive_a_killed_peer(void)
{
    struct remote r;
    start(&r, sleeps);
    meet(&r);
    struct side *c = &r.pair.client;
    assert_int_equal(post_receive(c, 9, 0, 8), 0);
    kill(r.pid, SIGSTOP); /* so that the requests are still unanswered when it dies */
    int status = 0;
    assert_int_equal(waitpid(r.pid, &status, WUNTRACED), r.pid);
    assert_int_equal(post(c, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0); /* it has posted no receive */
    assert_int_equal(post(c, IBV_WR_RDMA_READ, 2, 0, 8, &r.target, 0, 0), 0);
    kill(r.pid, SIGKILL);
    expect_completion(c->cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_completion(c->cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_completion(c->cq, 9, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(c->id), 0);
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    stop(&r);
}

static void notice_a_killed_peer_while_idle(void)
{
    struct remote r;
    start(&r, sleeps);
    meet(&r);
    kill(r.pid, SIGKILL);
    struct side *c = &r.pair.client;
    assert_int_equal(expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(post(c, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, 0), 0);
    expect_completion(c->cq, 1, IBV_WC_RETRY_EXC_ERR);
    stop(&r);
}

static void send_to_one_that_exits(void)
{
    struct remote r;
    start(&r, exits_after_one);
    meet(&r);
    assert_int_equal(post(&r.pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0), 0);
    expect_completion(r.pair.client.cq, 1, IBV_WC_SUCCESS);
    stop(&r);
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

static void fork_after_use(void)
{
    struct remote r;
    start(&r, sleeps);
    meet(&r);
    struct side *c = &r.pair.client;
    pid_t child = fork();
    if (child == 0) {
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
    stop(&r);
}

static void leave_without_cleaning_up(void)
{
    struct remote r;
    start(&r, sleeps);
    meet(&r);
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

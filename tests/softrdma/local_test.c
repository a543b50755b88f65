/* SPDX-License-Identifier: BSD-3-Clause */
/* The path between processes of one host, which needs no action of its target: the target is stopped. */
#include "native.h"
#include "remote.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum {
    page_size = 4096,
};

static const enum ibv_wr_opcode atomic_write = (enum ibv_wr_opcode)wr_opcode_atomic_write;

static const struct server_plan sleeps = {.receives = 4};

static void read_back(struct remote *r)
{
    struct side *c = &r->pair.client;
    memset(c->memory, 0, page_size / 2);
    post_and_expect(c, IBV_WR_RDMA_READ, 2, 0, page_size / 2, &r->target, page_size / 2, IBV_WC_SUCCESS);
    assert_memory_equal(c->memory, r->page + page_size / 2, page_size / 2);
}

/* The kernel's copies do not guarantee that words are written as a whole. */
TEST_IN_OWN_PROCESS(an_atomic_word_of_private_memory_is_written_by_its_owner)
{
    MEET_SERVER(r, &sleeps, NULL);
    suspend_server(&r);
    struct side *c = &r.pair.client;
    fill(c->memory, 8, 3);
    assert_int_equal(post(c, atomic_write, 1, 0, 8, &r.target, 8, 0), 0);
    expect_no_completion_for(c->cq, 100);
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    expect_completion(c->cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(r.page + 8, c->memory, 8);
}

/* System calls of the initiator must not fail when the owner of a mapped file, or of the ring of a message, is
 * killed. */
static void stop_at_the_death_of_the_owner(enum ibv_wr_opcode opcode)
{
    struct remote r;
    int fd;
    uint8_t *page = map_file(page_size, MAP_SHARED, &fd);
    start_server(&r, &sleeps, page);
    meet_server(&r);
    struct side *c = &r.pair.client;
    post_and_expect(c, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, IBV_WC_SUCCESS);
    kill_child(r.pid);
    memset(c->memory, 1, 8);
    post_and_expect(c, opcode, 2, 0, 8, &r.target, 0, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(page[0], 0);
    close(fd);
    close(r.in);
    close_pair(&r.pair);
}

TEST_IN_OWN_PROCESS(a_file_whose_owner_is_dead_is_not_written)
{
    stop_at_the_death_of_the_owner(IBV_WR_RDMA_WRITE);
}

TEST_IN_OWN_PROCESS(a_message_to_the_dead_fails)
{
    stop_at_the_death_of_the_owner(IBV_WR_SEND);
}

TEST_IN_OWN_PROCESS(a_stopped_process_is_reached)
{
    MEET_SERVER(r, &sleeps, NULL);
    suspend_server(&r);
    struct side *c = &r.pair.client;
    fill(c->memory, page_size, 3);
    post_and_expect(c, IBV_WR_RDMA_WRITE, 1, 0, page_size, &r.target, 0, IBV_WC_SUCCESS);
    assert_memory_equal(r.page, c->memory, page_size);
    read_back(&r);
    post_and_expect(c, IBV_WR_SEND, 3, 0, 64, NULL, 0, IBV_WC_SUCCESS);
    post_and_expect(c, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 0, 100, &r.target, 8, IBV_WC_SUCCESS);
    assert_memory_equal(r.page + 8, c->memory, 100);
}

/* Each queue pair may get the next message, and has a receive before that. */
TEST_IN_OWN_PROCESS(a_shared_receive_queue_is_reached)
{
    static const struct server_plan shares = {
            .size = 16 * page_size, .shared_receives = 8, .shared_size = 2 * page_size};
    MEET_SERVER(r, &shares, NULL);
    suspend_server(&r);
    struct side *c = &r.pair.client;
    fill(c->memory, r.size, 5);
    const size_t lengths[] = {0, 8, 64, 300, page_size, 2 * page_size};
    for (uint64_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        const enum ibv_wr_opcode opcode = i % 2 == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
        post_and_expect(c, opcode, i, 0, lengths[i], NULL, 0, IBV_WC_SUCCESS);
    }
    post_and_expect(c, IBV_WR_RDMA_WRITE_WITH_IMM, 7, 0, 100, &r.target, 8, IBV_WC_SUCCESS);
    assert_memory_equal(r.page + 8, c->memory, 100);
}

TEST_IN_OWN_PROCESS(a_file_is_reached_through_a_mapping)
{
    int fd;
    uint8_t *page = map_file(page_size, MAP_SHARED, &fd);
    MEET_SERVER(r, &sleeps, page);
    suspend_server(&r);
    struct side *c = &r.pair.client;
    fill(c->memory, page_size, 5);
    post_and_expect(c, IBV_WR_RDMA_WRITE, 1, 0, page_size, &r.target, 0, IBV_WC_SUCCESS);
    assert_memory_equal(page, c->memory, page_size);
    read_back(&r);
    post_and_expect(c, atomic_write, 3, 8, 8, &r.target, 16, IBV_WC_SUCCESS);
    assert_memory_equal(page + 16, c->memory + 8, 8);
    close(fd);
}

static volatile sig_atomic_t bus_errors;
static sigjmp_buf after_bus_error;

static void count_bus_error(int number)
{
    ++bus_errors;
    siglongjmp(after_bus_error, 1);
}

static void keep_the_programs_bus_errors(void)
{
    int fd;
    signal(SIGBUS, count_bus_error);
    MEET_SERVER(r, &sleeps, map_file(page_size, MAP_SHARED, &fd));
    post_and_expect(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, IBV_WC_SUCCESS);
    if (sigsetjmp(after_bus_error, 1) == 0)
        raise(SIGBUS);
    assert_int_equal(bus_errors, 1);
    assert_int_equal(ftruncate(fd, 0), 0);
    if (sigsetjmp(after_bus_error, 1) == 0)
        *(volatile uint8_t *)r.page = 1;
    assert_int_equal(bus_errors, 2);
    close(fd);
}

static void no_trust(void)
{
    setenv("SOFTRDMA_TRUST", "none", 1);
}

static void become_another_user(void)
{
    if (setresuid(65534, 65534, 65534) != 0)
        _exit(1);
}

/* Container runtimes deny these system calls. */
static void be_refused_what_the_path_needs(void)
{
    struct sock_filter refuse[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(refuse) / sizeof(refuse[0]), .filter = refuse};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(1);
}

/* Over the network, a stopped process does not respond. */
static void expect_the_network(const struct server_plan *plan)
{
    unsetenv("SOFTRDMA_TRANSPORT");
    MEET_SERVER(r, plan, NULL);
    suspend_server(&r);
    assert_int_equal(post(&r.pair.client, IBV_WR_RDMA_WRITE, 1, 0, 8, &r.target, 0, 0), 0);
    expect_no_completion_for(r.pair.client.cq, 100);
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    expect_completion(r.pair.client.cq, 1, IBV_WC_SUCCESS);
}

TEST_IN_OWN_PROCESS(a_process_without_trust_is_reached_over_the_network)
{
    expect_the_network(&(struct server_plan){.prepare = no_trust});
}

TEST_IN_OWN_PROCESS_OF_ROOT(another_user_is_reached_over_the_network)
{
    expect_the_network(&(struct server_plan){.prepare = become_another_user});
}

TEST_IN_OWN_PROCESS(a_process_without_the_system_calls_is_reached_over_the_network)
{
    be_refused_what_the_path_needs();
    expect_the_network(&(struct server_plan){0});
}

/* Only root may inspect a process that has changed its user. */
TEST_IN_OWN_PROCESS_OF_ROOT(a_process_without_capabilities_is_reached_over_the_network)
{
    become_another_user();
    expect_the_network(&(struct server_plan){0});
}

/* The server publishes the open registration in its page. Data of a closed registration must not change. */
struct board {
    _Atomic uint32_t rkey;
    _Atomic uint32_t torn;
    _Atomic uint64_t rounds;
};

static struct board *board_at(void *page)
{
    return page;
}

static void register_again_and_again(struct pair *p)
{
    struct board *board = board_at(p->server.memory);
    uint8_t *target = p->server.memory + page_size / 2;
    for (;;) {
        struct ibv_mr *mr = (ibv_reg_mr)(p->server.pd, target, page_size / 2, everything);
        atomic_store(&board->rkey, mr->rkey);
        usleep(200);
        atomic_store(&board->rkey, 0);
        ibv_dereg_mr(mr);
        memset(target, 0x55, page_size / 2);
        usleep(200);
        for (unsigned i = 0; i < page_size / 2; ++i)
            if (target[i] != 0x55)
                atomic_fetch_add(&board->torn, 1);
        atomic_fetch_add(&board->rounds, 1);
    }
}

static const struct server_plan registers = {.act = register_again_and_again};

/* Uses one connection until a key is no longer valid. Returns the number of registrations that were used. */
static uint64_t write_while_it_lasts(struct remote *r)
{
    struct board *board = board_at(r->page);
    struct side *c = &r->pair.client;
    memset(c->memory, 0xaa, page_size);
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    while (wc.status == IBV_WC_SUCCESS && atomic_load(&board->rounds) < 200) {
        r->mr.rkey = atomic_load(&board->rkey);
        if (r->mr.rkey == 0)
            continue;
        assert_int_equal(post(c, IBV_WR_RDMA_WRITE, 1, 0, page_size / 2, &r->target, page_size / 2, 0), 0);
        wc = next_completion(c->cq);
    }
    assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR);
    return atomic_load(&board->rounds);
}

TEST_IN_OWN_PROCESS(deregistered_memory_does_not_change)
{
    MEET_SERVER(r, &registers, NULL);
    write_while_it_lasts(&r);
    usleep(1000);
    assert_int_equal(atomic_load(&board_at(r.page)->torn), 0);
}

/* Sends messages while their receiver is destroyed. Both are in this process. */
static void *destroy_soon(void *id)
{
    usleep((unsigned)(rand() % 2000));
    rdma_destroy_qp(id);
    return NULL;
}

TEST_IN_OWN_PROCESS(a_destroyed_receiver_ends_the_sender)
{
    for (unsigned round = 0; round < 20; ++round) {
        OPEN_PAIR(p, NULL);
        for (unsigned i = 0; i < 16; ++i)
            assert_int_equal(post_receive(&p.server, i, 0, 4096), 0);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, destroy_soon, p.server.id), 0);
        struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
        for (unsigned i = 0; i < 17 && wc.status == IBV_WC_SUCCESS; ++i) {
            usleep(100);
            assert_int_equal(post(&p.client, IBV_WR_SEND, i, 0, i % 2 ? 4096 : 64, NULL, 0, 0), 0);
            wc = next_completion(p.client.cq);
        }
        assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
        pthread_join(thread, NULL);
    }
}

/* A sleeping receiver is woken once for each arming, by any process that delivers. */
static void wait_for_messages(struct pair *p)
{
    struct side *s = &p->server;
    for (uint64_t i = 1;; ++i) {
        struct ibv_cq *cq = NULL;
        void *context = NULL;
        struct ibv_wc wc;
        assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
        while (ibv_poll_cq(s->cq, 1, &wc) == 1) {
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(post_receive(s, i, 64, 64), 0);
            atomic_fetch_add((_Atomic uint64_t *)(void *)s->memory, 1);
        }
        assert_int_equal(ibv_get_cq_event(s->completions, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
    }
}

static const struct server_plan waits = {.receives = 8, .act = wait_for_messages};

TEST_IN_OWN_PROCESS(a_sleeping_receiver_is_woken)
{
    MEET_SERVER(r, &waits, NULL);
    struct side *c = &r.pair.client;
    for (uint64_t i = 0; i < 2000; ++i) {
        post_and_expect(c, IBV_WR_SEND, i, 64, 64, NULL, 0, IBV_WC_SUCCESS);
        if (i % 100 == 0)
            usleep(1000);
    }
    AWAIT(atomic_load((_Atomic uint64_t *)(void *)r.page) == 2000);
}

TEST(a_bus_error_of_the_program_is_its_own)
{
#ifdef __SANITIZE_THREAD__
    skip_because("ThreadSanitizer does not notice that a signal handler was left");
#endif
    in_own_process(keep_the_programs_bus_errors);
}

int main(void)
{
    setenv("SOFTRDMA_TRANSPORT", "shm", 1);
    return run_registered_tests();
}

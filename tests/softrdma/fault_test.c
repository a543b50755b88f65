/* SPDX-License-Identifier: BSD-3-Clause */
/* Injected faults. Each case runs in a process of its own, whose environment has the rules. */
#include "fixture.h"

#include <stdio.h>
#include <sys/wait.h>

static void expect_both_flushed(struct pair *p, uint64_t failing, enum ibv_wc_status status)
{
    expect_completion(p->client.cq, failing, status);
    expect_completion(p->client.cq, failing + 1, IBV_WC_WR_FLUSH_ERR);
}

static void write_three(struct pair *p)
{
    for (unsigned i = 1; i <= 3; ++i)
        assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, i, 0, 8, &p->server, 64 * i, 0), 0);
}

static void the_nth_write_fails_with_a_status(void)
{
    OPEN_PAIR(p, NULL);
    p.client.memory[0] = 1;
    write_three(&p);
    expect_completion(p.client.cq, 1, IBV_WC_SUCCESS);
    expect_both_flushed(&p, 2, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(p.server.memory[64], 1);
    assert_int_equal(p.server.memory[128], 0); /* it was not executed */
}

static void an_answer_is_lost(void)
{
    OPEN_PAIR(p, NULL);
    p.client.memory[0] = 1;
    write_three(&p);
    expect_completion(p.client.cq, 1, IBV_WC_SUCCESS);
    expect_both_flushed(&p, 2, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(p.server.memory[128], 1); /* it was executed */
}

static void a_request_waits(void)
{
    OPEN_PAIR(p, NULL);
    const int64_t before = now_ms();
    write_three(&p);
    for (unsigned i = 1; i <= 3; ++i)
        expect_completion(p.client.cq, i, IBV_WC_SUCCESS);
    assert_true(now_ms() - before >= 45);
}

static void a_receiver_is_not_ready_for_a_while(void)
{
    OPEN_PAIR(p, NULL);
    assert_int_equal(post_receive(&p.server, 9, 0, 64), 0);
    post_and_expect(&p.client, IBV_WR_SEND, 1, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 9, IBV_WC_SUCCESS);
}

static void a_receiver_is_never_ready(void)
{
    OPEN_PAIR(p, &(struct options){.rnr_retry = 2});
    assert_int_equal(post_receive(&p.server, 9, 0, 64), 0);
    post_and_expect(&p.client, IBV_WR_SEND, 1, 0, 8, NULL, 0, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void the_connection_breaks(void)
{
    OPEN_PAIR(p, NULL);
    post_and_expect(&p.client, IBV_WR_RDMA_WRITE, 0, 0, 8, &p.server, 0, IBV_WC_SUCCESS);
    write_three(&p);
    expect_both_flushed(&p, 1, IBV_WC_RETRY_EXC_ERR);
    if (is_over_roce()) /* its connection manager has other packets, as on hardware */
        assert_int_equal(rdma_disconnect(p.client.id), 0);
    expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED);
    if (is_over_roce())
        assert_int_equal(rdma_disconnect(p.server.id), 0);
    expect_event(p.client.channel, RDMA_CM_EVENT_DISCONNECTED);
}

/* A WRITE of data that a READ fetches. Returns 0 without a fence, 7 with the required fence. */
static uint8_t forwarded(unsigned flags)
{
    OPEN_PAIR(p, NULL);
    p.server.memory[0] = 7;
    assert_int_equal(post(&p.client, IBV_WR_RDMA_READ, 1, 0, 8, &p.server, 0, 0), 0);
    usleep(20000); /* the response usually arrives within this time */
    assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p.server, 64, flags), 0);
    expect_completion(p.client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p.client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p.client.memory[0], 7);
    return p.server.memory[64];
}

static void a_late_read_shows_a_missing_fence(void)
{
    assert_int_equal(forwarded(0), 0);
    assert_int_equal(forwarded(IBV_SEND_FENCE), 7);
}

static void no_request_gets_through(struct pair *p)
{
    memset(p, 0, sizeof(*p));
    open_listener(p, "127.0.0.1");
    resolve_client(p, NULL);
    connect_client(p, NULL);
}

static void a_connection_is_rejected(void)
{
    PAIR p;
    no_request_gets_through(&p);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_REJECTED), 28);
    expect_no_event(p.listen_channel);
}

static void a_request_is_never_answered(void)
{
    PAIR p;
    no_request_gets_through(&p);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
    expect_no_event(p.listen_channel);
}

static void a_completion_queue_overflows(void)
{
    struct pair p;
    open_pair(&p, NULL);
    write_three(&p);
    expect_async(p.client.qp->context, IBV_EVENT_CQ_ERR, p.client.cq);
    _exit(0);
}

static void about_half_of_them_fail(void)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < 40; ++i) {
        OPEN_PAIR(p, NULL);
        assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, i, 0, 8, &p.server, 0, 0), 0);
        failed += next_completion(p.client.cq).status == IBV_WC_REM_OP_ERR;
    }
    assert_true(failed > 8 && failed < 32);
}

static void other_operations_are_left_alone(void)
{
    OPEN_PAIR(p, NULL);
    write_three(&p);
    for (unsigned i = 1; i <= 3; ++i)
        expect_completion(p.client.cq, i, IBV_WC_SUCCESS);
}

static void the_program_is_ended(void)
{
    static struct ibv_device **volatile list; /* the leak detector finds it when the process ends in the next call */
    list = ibv_get_device_list(NULL);
    (void)ibv_open_device(list[0]);
    _exit(1);
}

static const struct rules_and_effect {
    const char *rules;
    void (*effect)(void);
} cases[] = {
        {"status=rem_access:op=write,nth=2", the_nth_write_fails_with_a_status},
        {"drop:op=write,nth=2", an_answer_is_lost},
        {"delay=50000:op=write,count=1", a_request_waits},
        {"rnr:op=send,count=3", a_receiver_is_not_ready_for_a_while},
        {"rnr", a_receiver_is_never_ready},
        {"disconnect:nth=2", the_connection_breaks},
        {"late=1000000:op=read", a_late_read_shows_a_missing_fence},
        {"reject", a_connection_is_rejected},
        {"unreachable", a_request_is_never_answered},
        {"overflow:nth=1", a_completion_queue_overflows},
        {"status=rem_op:p=0.5;seed=5", about_half_of_them_fail},
        {"status=rem_op:op=read; status=rem_op:op=flush ;seed=1", other_operations_are_left_alone},
        {"status=rem_op:qp=1", other_operations_are_left_alone},
        {"status=rem_op:every=4", other_operations_are_left_alone},
        {"explode", the_program_is_ended},
        {"status=good", the_program_is_ended},
        {"delay", the_program_is_ended},
        {"delay=-1", the_program_is_ended},
        {"drop:op=nop", the_program_is_ended},
        {"drop:p=2", the_program_is_ended},
        {"drop:nth=0", the_program_is_ended},
        {"late=5:op=write", the_program_is_ended},
        {"seed=x", the_program_is_ended},
};

static void run_one(void (*effect)(void))
{
    void (*volatile function)(void) = effect;
    function();
    _exit(0);
}

DEFINE_TEST(faults_follow_the_rules, NULL, NULL)
{
    unsigned failed = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            setenv("SOFTRDMA_FAULT", cases[i].rules, 1);
            alarm(30);
            run_one(cases[i].effect);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        const int expected = cases[i].effect == the_program_is_ended ? 2 : 0; /* wrong usage */
        if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
            print_error("failed with SOFTRDMA_FAULT='%s': status 0x%x\n", cases[i].rules, (unsigned)status);
            ++failed;
        }
    }
    assert_int_equal(failed, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that ibv_modify_qp() connects, without the connection manager. */
#include "remote.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Packet sequence numbers have 24 bits: they wrap with the first requests. */
static const uint32_t first_psn = 0xffffff;

/* Index of the GID of a peer on this host. Only RoCE requires one. */
static int this_host(void)
{
    return is_over_roce() ? gid_index_of("::ffff:127.0.0.1") : no_gid;
}

static struct side open_side(void)
{
    struct side side = {.pd = ibv_alloc_pd(device), .cq = ibv_create_cq(device, 64, NULL, NULL, 0), .size = 4096};
    side.qp = create_plain_qp(side.pd, side.cq, IBV_QPT_RC, 16);
    side.memory = calloc(1, side.size);
    side.mr = create_mr(side.pd, side.memory, side.size, everything);
    return side;
}

/* Defines an open side that is closed at the end of the block. */
#define OPEN_SIDE(name) struct side name __attribute__((cleanup(close_with_pd))) = open_side()

static int to_rtr(struct ibv_qp *qp, uint32_t peer, int gid_index)
{
    struct ibv_qp_attr attr = connection_to(device, peer);
    attr.rq_psn = first_psn;
    attr.ah_attr = (struct ibv_ah_attr){.port_num = 1};
    if (gid_index != no_gid) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
        /* An index outside the table has no GID. The caller tests that this is rejected. */
        (void)ibv_query_gid(device, 1, gid_index, &attr.ah_attr.grh.dgid);
    }
    return modify_to_rtr(qp, &attr);
}

static void to_rts(struct ibv_qp *qp)
{
    /* Over RoCE these attributes alone limit the wait for a peer. */
    struct ibv_qp_attr attr = {.timeout = is_over_roce() ? 14 : 10,
            .retry_cnt = is_over_roce() ? 7 : 1,
            .rnr_retry = 7,
            .sq_psn = first_psn,
            .max_rd_atomic = 1};
    assert_int_equal(modify_to_rts(qp, &attr), 0);
}

static void make_ready(struct ibv_qp *qp, uint32_t peer)
{
    to_init(qp);
    assert_int_equal(to_rtr(qp, peer, this_host()), 0);
    to_rts(qp);
}

static void join(struct side *a, struct side *b, int gid_index)
{
    to_init(a->qp);
    to_init(b->qp);
    assert_int_equal(to_rtr(a->qp, b->qp->qp_num, gid_index), 0);
    assert_int_equal(to_rtr(b->qp, a->qp->qp_num, gid_index), 0);
    to_rts(a->qp);
    to_rts(b->qp);
}

static void exchange(struct side *a, struct side *b, unsigned seed)
{
    fill(a->memory, 64, seed);
    assert_int_equal(post_receive(b, 1, 128, 64), 0);
    assert_int_equal(post(a, IBV_WR_RDMA_WRITE, 2, 0, 64, b, 0, 0), 0);
    assert_int_equal(post(a, IBV_WR_SEND, 3, 0, 64, NULL, 0, 0), 0);
    expect_completion(a->cq, 2, IBV_WC_SUCCESS);
    expect_completion(a->cq, 3, IBV_WC_SUCCESS);
    expect_completion(b->cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(b->memory, a->memory, 64);
    assert_memory_equal(b->memory + 128, a->memory, 64);
}

static void both_ways(int gid_index)
{
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    join(&a, &b, gid_index);
    exchange(&a, &b, 1);
    exchange(&b, &a, 2);
}

TEST(queue_pairs_find_each_other_by_gid)
{
    both_ways(gid_index_of("::ffff:127.0.0.1"));
}

TEST(queue_pairs_find_each_other_over_ipv6)
{
    const int index = gid_index_of("::1");
    if (index == no_gid)
        skip();
    both_ways(index);
}

TEST(without_a_gid_the_peer_is_on_this_host)
{
    skip_over_roce();
    both_ways(no_gid);
}

TEST(sides_may_become_ready_in_any_order)
{
    for (int first = 0; first < 2; ++first) {
        struct side sides[2] = {open_side(), open_side()};
        struct side *early = &sides[first], *late = &sides[1 - first];
        make_ready(early->qp, late->qp->qp_num);
        fill(early->memory, 64, 5);
        assert_int_equal(post(early, IBV_WR_RDMA_WRITE, 1, 0, 64, late, 0, 0), 0);
        usleep(20000);
        to_init(late->qp);
        assert_int_equal(to_rtr(late->qp, early->qp->qp_num, this_host()), 0);
        expect_completion(early->cq, 1, IBV_WC_SUCCESS);
        assert_memory_equal(late->memory, early->memory, 64);
        close_with_pd(early);
        close_with_pd(late);
    }
}

TEST(a_queue_pair_can_be_reconnected)
{
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    OPEN_SIDE(c);
    join(&a, &b, this_host());
    exchange(&a, &b, 1);
    for (unsigned round = 0; round < 20; ++round) {
        struct side *peer = round % 2 == 0 ? &c : &b;
        to_reset(a.qp);
        to_reset(peer->qp);
        join(&a, peer, this_host());
        exchange(&a, peer, round);
        exchange(peer, &a, round);
    }
}

/* Another thread reports the end of the previous connection, possibly much later. */
TEST(the_end_of_a_connection_does_not_reach_the_next)
{
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    join(&a, &b, this_host());
    exchange(&a, &b, 1);
    for (unsigned round = 0; round < 1000; ++round) {
        struct side *first = round % 2 == 0 ? &a : &b, *second = first == &a ? &b : &a;
        to_reset(first->qp);
        make_ready(first->qp, second->qp->qp_num);
        usleep(round % 100);
        to_reset(second->qp);
        make_ready(second->qp, first->qp->qp_num);
        exchange(second, first, round);
    }
}

TEST(a_peer_that_never_appears_exceeds_the_retries)
{
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    make_ready(a.qp, b.qp->qp_num);
    assert_int_equal(post(&a, IBV_WR_RDMA_WRITE, 1, 0, 64, &b, 0, 0), 0);
    assert_int_equal(post(&a, IBV_WR_RDMA_WRITE, 2, 0, 64, &b, 0, 0), 0);
    expect_completion(a.cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_completion(a.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(a.qp->state, IBV_QPS_ERR);
}

/* Creates one page of memory that appears only when the test provides it: threads that store to it wait until then.
 * Returns -1 if the kernel refuses. */
static int make_missing_page(uint8_t **page)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {.len = 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0)
        return -1;
    *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(*page, MAP_FAILED);
    range.range.start = (uintptr_t)*page;
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
    return fd;
}

struct written {
    struct side *from;
    const struct side *to;
};

static void *write_there(void *argument)
{
    const struct written *w = argument;
    if (post(w->from, IBV_WR_RDMA_WRITE, 1, 0, 64, w->to, 0, 0) == 0)
        (void)next_completion(w->from->cq); /* any status: the target is reset at the same time */
    return NULL;
}

static atomic_bool is_reset;

static void *reset_it(void *qp)
{
    to_reset(qp);
    atomic_store(&is_reset, true);
    return NULL;
}

TEST(a_reset_waits_for_operations_of_the_peer)
{
    uint8_t *page = NULL;
    const int faults = make_missing_page(&page);
    if (faults < 0)
        skip_because("the kernel refuses userfaultfd()");
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    struct side target = b;
    target.memory = page;
    target.mr = create_mr(b.pd, target.memory, 4096, everything);
    join(&a, &b, this_host());
    exchange(&a, &b, 1);
    fill(a.memory, 64, 2);
    pthread_t writer, resetter;
    struct written w = {&a, &target};
    assert_int_equal(pthread_create(&writer, NULL, write_there, &w), 0);
    struct uffd_msg fault;
    assert_int_equal(read(faults, &fault, sizeof(fault)), sizeof(fault)); /* the write has begun */
    atomic_store(&is_reset, false);
    assert_int_equal(pthread_create(&resetter, NULL, reset_it, b.qp), 0);
    usleep(100000);
    assert_false(atomic_load(&is_reset));
    struct uffdio_zeropage zeros = {.range = {.start = (uintptr_t)target.memory, .len = 4096}};
    assert_int_equal(ioctl(faults, UFFDIO_ZEROPAGE, &zeros), 0);
    pthread_join(resetter, NULL);
    assert_memory_equal(target.memory, a.memory, 64); /* no late data arrives */
    pthread_join(writer, NULL);
    assert_int_equal(ibv_dereg_mr(target.mr), 0);
    close(faults);
    munmap(target.memory, 4096);
}

/* Simulates a busy machine, on which the peer connects seconds later. */
static void wait_for_a_late_peer(void)
{
    unsetenv("SOFTRDMA_CM_TIMEOUT_MS");
    assert_int_equal(open_the_device(NULL), 0);
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    make_ready(a.qp, b.qp->qp_num);
    to_init(b.qp);
    fill(a.memory, 64, 1);
    assert_int_equal(post(&a, IBV_WR_RDMA_WRITE, 1, 0, 64, &b, 0, 0), 0);
    sleep(3);
    assert_int_equal(to_rtr(b.qp, a.qp->qp_num, this_host()), 0);
    expect_completion(a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(b.memory, a.memory, 64);
}

static void a_late_peer_is_waited_for(void **state)
{
    skip_over_roce(); /* the retry limit is that of the queue pair */
    in_own_process(wait_for_a_late_peer);
}

TEST(a_peer_that_exited_exceeds_the_retries)
{
    OPEN_SIDE(a);
    OPEN_SIDE(b);
    join(&a, &b, this_host());
    exchange(&a, &b, 1);
    assert_int_equal(ibv_destroy_qp(b.qp), 0);
    b.qp = NULL;
    post_and_expect(&a, IBV_WR_RDMA_WRITE, 1, 0, 64, &b, 0, IBV_WC_RETRY_EXC_ERR);
    post_and_expect(&a, IBV_WR_RDMA_WRITE, 2, 0, 64, &b, 0, IBV_WC_WR_FLUSH_ERR);
}

/* b expects a. c, which repeatedly tries to connect to b, is not connected, and has no effect. */
TEST(only_the_expected_peer_is_connected)
{
    skip_over_roce(); /* its packets do not contain the number of their sender */
    OPEN_SIDE(b);
    OPEN_SIDE(a);
    OPEN_SIDE(c); /* the side with the larger number connects */
    make_ready(c.qp, b.qp->qp_num);
    make_ready(b.qp, a.qp->qp_num);
    post_and_expect(&c, IBV_WR_RDMA_WRITE, 9, 0, 64, &b, 0, IBV_WC_RETRY_EXC_ERR);
    make_ready(a.qp, b.qp->qp_num);
    exchange(&a, &b, 3);
    exchange(&b, &a, 4);
}

TEST(an_index_outside_the_gid_table_is_refused)
{
    OPEN_SIDE(a);
    to_init(a.qp);
    assert_int_equal(to_rtr(a.qp, 0x800000, 255), EINVAL);
}

GROUP_FIXTURE(open_the_device, close_the_device)

int main(void)
{
    const struct CMUnitTest before_any_verbs_call[] = {cmocka_unit_test(a_late_peer_is_waited_for)};
    return cmocka_run_group_tests_name("direct", before_any_verbs_call, NULL, NULL) + run_registered_tests();
}

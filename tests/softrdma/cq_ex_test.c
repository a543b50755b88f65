/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues that are polled entry by entry, thread domains and parent domains. */
#include "fixture.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    fields = IBV_WC_STANDARD_FLAGS,
    messages = 2000,
};

/* Queue pairs of one process that are connected. The completions of the second are in an extended CQ. */
struct ends {
    struct side from;
    struct side to;
    struct ibv_cq_ex *cq_ex;
    uint8_t memory[4096];
};

static struct ibv_cq_ex *make_cq(struct ibv_pd *parent, unsigned flags)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 256,
            .wc_flags = fields,
            .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | (parent != NULL ? (unsigned)IBV_CQ_INIT_ATTR_MASK_PD : 0),
            .flags = flags,
            .parent_domain = parent};
    return ibv_create_cq_ex(device, &attr);
}

static void open_ends(struct ends *e, struct ibv_pd *domain, unsigned flags)
{
    struct ibv_pd *const pd = domain != NULL ? domain : ibv_alloc_pd(device);
    e->cq_ex = make_cq(NULL, flags);
    assert_non_null(e->cq_ex);
    struct ibv_mr *const mr = create_mr(pd, e->memory, sizeof(e->memory), (int)everything);
    e->from = (struct side){.pd = pd, .mr = mr, .memory = e->memory, .borrowed = true};
    e->to = (struct side){.pd = pd, .mr = mr, .memory = e->memory, .mapped = true};
    e->from.cq = ibv_create_cq(device, 256, NULL, NULL, 0);
    e->to.cq = ibv_cq_ex_to_cq(e->cq_ex);
    e->from.qp = create_plain_qp(pd, e->from.cq, IBV_QPT_RC, 64);
    e->to.qp = create_plain_qp(pd, e->to.cq, IBV_QPT_RC, 64);
    connect_qp(e->from.qp, connection_to(device, e->to.qp->qp_num));
    connect_qp(e->to.qp, connection_to(device, e->from.qp->qp_num));
}

static void close_ends(struct ends *e)
{
    close_side(&e->from);
    close_with_pd(&e->to);
}

/* Defines open ends that are closed at the end of the block. The other arguments are for open_ends(). */
#define OPEN_ENDS(name, ...)                                                                                           \
    struct ends name __attribute__((cleanup(close_ends))) = {0};                                                       \
    open_ends(&name, __VA_ARGS__)

static void take_message(struct ends *e, uint64_t id)
{
    assert_int_equal(post_receive(&e->to, id, 2048, 64), 0);
}

static void send_message(struct ends *e, size_t length, enum ibv_wr_opcode opcode)
{
    post_and_expect(&e->from, opcode, 1, 0, length, NULL, 0, length > 64 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS);
}

static int start(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};
    int found = ENOENT;
    for (unsigned i = 0; found == ENOENT && i < 60000000; ++i)
        found = ibv_start_poll(cq, &attr);
    return found;
}

DEFINE_TEST(entries_are_read_field_by_field, open_the_device, close_the_device)
{
    OPEN_ENDS(e, NULL, 0);
    struct ibv_poll_cq_attr nothing = {0}, unknown = {.comp_mask = 1};
    assert_int_equal(ibv_start_poll(e.cq_ex, &nothing), ENOENT);
    assert_int_equal(ibv_start_poll(e.cq_ex, &unknown), EINVAL);
    for (uint64_t i = 0; i < 3; ++i)
        take_message(&e, 10 + i);
    send_message(&e, 8, IBV_WR_SEND);
    send_message(&e, 16, IBV_WR_SEND_WITH_IMM);

    assert_int_equal(start(e.cq_ex), 0);
    assert_int_equal(e.cq_ex->wr_id, 10);
    assert_int_equal(e.cq_ex->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(e.cq_ex), IBV_WC_RECV);
    assert_int_equal(ibv_wc_read_byte_len(e.cq_ex), 8);
    assert_int_equal(ibv_wc_read_wc_flags(e.cq_ex), 0);
    assert_int_equal(ibv_wc_read_qp_num(e.cq_ex), e.to.qp->qp_num);
    assert_int_equal(ibv_wc_read_src_qp(e.cq_ex), e.from.qp->qp_num);
    assert_int_equal(ibv_next_poll(e.cq_ex), 0);
    assert_int_equal(e.cq_ex->wr_id, 11);
    assert_int_equal(ibv_wc_read_byte_len(e.cq_ex), 16);
    assert_int_equal(ibv_wc_read_wc_flags(e.cq_ex), IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(ibv_wc_read_imm_data(e.cq_ex)), 0x87654321);
    assert_int_equal(ibv_wc_read_vendor_err(e.cq_ex), 0);
    assert_int_equal(ibv_wc_read_slid(e.cq_ex), 0);
    assert_int_equal(ibv_wc_read_sl(e.cq_ex), 0);
    assert_int_equal(ibv_wc_read_dlid_path_bits(e.cq_ex), 0);
    assert_int_equal(ibv_next_poll(e.cq_ex), ENOENT);
    ibv_end_poll(e.cq_ex);

    /* Both polling functions return entries of the same queue. */
    send_message(&e, 8, IBV_WR_SEND);
    expect_completion(e.to.cq, 12, IBV_WC_SUCCESS);
    take_message(&e, 13);
    assert_int_equal(ibv_resize_cq(e.to.cq, 512), 0);
    send_message(&e, 65, IBV_WR_SEND); /* longer than its receive */
    assert_int_equal(start(e.cq_ex), 0);
    assert_int_equal(e.cq_ex->wr_id, 13);
    assert_int_equal(e.cq_ex->status, IBV_WC_LOC_LEN_ERR);
    ibv_end_poll(e.cq_ex);
}

/* One thread polls both queues: it starts the second before it ends the first. Both orders of ending are tested. */
DEFINE_TEST(two_queues_are_polled_at_once, open_the_device, close_the_device)
{
    struct ends e[2] = {0};
    open_ends(&e[0], NULL, 0);
    open_ends(&e[1], NULL, 0);
    for (unsigned turn = 0; turn < 2; ++turn) {
        for (unsigned i = 0; i < 2; ++i) {
            take_message(&e[i], 10 + i);
            send_message(&e[i], 8, IBV_WR_SEND);
        }
        const unsigned first = turn, second = 1 - turn;
        assert_int_equal(start(e[first].cq_ex), 0);
        assert_int_equal(start(e[second].cq_ex), 0);
        assert_int_equal(e[first].cq_ex->wr_id, 10 + first);
        assert_int_equal(e[second].cq_ex->wr_id, 10 + second);
        ibv_end_poll(e[first].cq_ex);
        assert_int_equal(ibv_next_poll(e[second].cq_ex), ENOENT);
        ibv_end_poll(e[second].cq_ex);
    }
    close_ends(&e[0]);
    close_ends(&e[1]);
}

DEFINE_TEST(unsupported_parameters_are_rejected, open_the_device, close_the_device)
{
    struct ibv_pd *pd = ibv_alloc_pd(device);
    const uint64_t missing[] = {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
            IBV_WC_EX_WITH_TM_INFO, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 1ULL << 40};
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); ++i) {
        struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = missing[i]};
        expect_null(ibv_create_cq_ex(device, &attr), EOPNOTSUPP);
    }
    expect_null(make_cq(NULL, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN), EOPNOTSUPP);
    expect_null(make_cq(pd, 0), EINVAL); /* not a parent domain */
    struct ibv_cq_init_attr_ex none = {.cqe = 0}, large = {.cqe = UINT32_MAX};
    expect_null(ibv_create_cq_ex(device, &none), EINVAL);
    expect_null(ibv_create_cq_ex(device, &large), EINVAL);

    struct ibv_cq_init_attr_ex bare = {.cqe = 1};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(device, &bare);
    assert_non_null(cq);
    assert_null(cq->read_byte_len);
    assert_null(cq->read_completion_ts);
    assert_non_null(cq->read_opcode);
    struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = 1}};
    assert_int_equal(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);

    struct ibv_device_attr_ex attr;
    assert_int_equal(ibv_query_device_ex(device, NULL, &attr), 0);
    assert_int_equal(attr.completion_timestamp_mask, 0);
    assert_int_equal(attr.hca_core_clock, 0);
    assert_int_equal(attr.cq_mod_caps.max_cq_count, 0);
    assert_int_equal(attr.tm_caps.max_num_tags, 0);
    struct ibv_xrcd_init_attr xrcd = {.fd = -1};
    expect_null(ibv_open_xrcd(device, &xrcd), EOPNOTSUPP);
    assert_true((attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC) == 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

struct takers {
    struct ends *e;
    atomic_uint taken;
    atomic_uint wrong;
};

/* Threads do not mix up their entries: the length of a message equals the number of its receive. */
static void *take_entries(void *argument)
{
    struct takers *t = argument;
    struct ibv_poll_cq_attr attr = {0};
    while (t->taken < messages) {
        if (ibv_start_poll(t->e->cq_ex, &attr) != 0) {
            sched_yield();
            continue;
        }
        do {
            sched_yield();
            t->wrong +=
                    t->e->cq_ex->status != IBV_WC_SUCCESS || t->e->cq_ex->wr_id != ibv_wc_read_byte_len(t->e->cq_ex);
            ++t->taken;
        } while (ibv_next_poll(t->e->cq_ex) == 0);
        ibv_end_poll(t->e->cq_ex);
    }
    return NULL;
}

DEFINE_TEST(threads_take_entries_of_one_queue, open_the_device, close_the_device)
{
    pthread_t threads[2];
    OPEN_ENDS(e, NULL, 0);
    struct takers t = {.e = &e};
    for (unsigned i = 0; i < 2; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_entries, &t), 0);
    for (unsigned i = 0; i < messages; ++i) {
        const uint32_t length = 1 + i % 64;
        take_message(&e, length);
        send_message(&e, length, IBV_WR_SEND);
        while (i >= 32 + t.taken)
            sched_yield();
    }
    for (unsigned i = 0; i < 2; ++i)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(t.taken, messages);
    assert_int_equal(t.wrong, 0);
}

DEFINE_TEST(a_queue_of_one_thread_is_polled_without_a_lock, open_the_device, close_the_device)
{
    OPEN_ENDS(e, NULL, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    for (uint64_t i = 0; i < 100; ++i) {
        take_message(&e, i);
        send_message(&e, 8, IBV_WR_SEND);
        assert_int_equal(start(e.cq_ex), 0);
        assert_int_equal(e.cq_ex->wr_id, i);
        ibv_end_poll(e.cq_ex);
    }
}

DEFINE_TEST(a_parent_domain_stands_for_its_domain, open_the_device, close_the_device)
{
    struct ibv_td_init_attr no_hint = {0}, unknown = {.comp_mask = 1};
    struct ends e = {0};
    struct ibv_pd *pd = ibv_alloc_pd(device);
    assert_null(ibv_alloc_td(device, &unknown));
    struct ibv_td *td = ibv_alloc_td(device, &no_hint);
    assert_non_null(td);
    struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
    struct ibv_pd *parent = ibv_alloc_parent_domain(device, &attr);
    assert_non_null(parent);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    attr.pd = parent;
    expect_null(ibv_alloc_parent_domain(device, &attr), EINVAL);
    attr.pd = NULL;
    expect_null(ibv_alloc_parent_domain(device, &attr), EINVAL);

    open_ends(&e, parent, 0);
    assert_ptr_equal(e.to.qp->pd, parent);
    struct ibv_mr *of_domain = create_mr(pd, e.memory, sizeof(e.memory), (int)everything);
    struct ibv_mr *const regions[] = {of_domain, e.to.mr};
    for (unsigned i = 0; i < 2; ++i) { /* each region works with the same keys */
        e.from.mr = e.to.mr = regions[i];
        take_message(&e, i);
        send_message(&e, 8, IBV_WR_SEND);
        expect_completion(e.to.cq, i, IBV_WC_SUCCESS);
    }
    struct ibv_cq_ex *cq = make_cq(parent, 0);
    assert_non_null(cq);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    assert_int_equal(ibv_dereg_mr(of_domain), 0);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    close_ends(&e);
    assert_int_equal(ibv_dealloc_td(td), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Transitions of an RC queue pair. Each attribute is required, optional or rejected. */
#include "fixture.h"

enum {
    location = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    while_sending =
            IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE
};

static const struct {
    enum ibv_qp_state from, to;
    int required, optional;
} table[] = {
        {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_RESET, IBV_QPS_INIT, location, 0},
        {IBV_QPS_INIT, IBV_QPS_INIT, 0, location},
        {IBV_QPS_INIT, IBV_QPS_RTR,
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                        IBV_QP_MIN_RNR_TIMER,
                IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        {IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
        {IBV_QPS_RTR, IBV_QPS_RTS,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                while_sending},
        {IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
        {IBV_QPS_RTS, IBV_QPS_RTS, 0, while_sending},
        {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
        {IBV_QPS_SQD, IBV_QPS_RTS, 0, while_sending},
        {IBV_QPS_SQD, IBV_QPS_SQD, 0,
                location | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
        {IBV_QPS_SQD, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_SQD, IBV_QPS_ERR, 0, 0},
        {IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
        {IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

static const enum ibv_qp_state states[] = {
        IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR};

static struct {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
} d;

static int open_queue(void **state)
{
    if (open_the_device(state) != 0)
        return -1;
    d.pd = ibv_alloc_pd(device);
    d.cq = ibv_create_cq(device, 16, NULL, NULL, 0);
    return d.cq == NULL;
}

static int close_queue(void **state)
{
    return ibv_destroy_cq(d.cq) | ibv_dealloc_pd(d.pd) | close_the_device(state);
}

/* Valid values for every attribute. */
static struct ibv_qp_attr attributes(enum ibv_qp_state from, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = connection_to(device, 2); /* no such queue pair */
    attr.qp_state = to;
    attr.cur_qp_state = from;
    attr.port_num = 1;
    return attr;
}

static int change(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr attr = attributes(from, to);
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
}

static int required_of(enum ibv_qp_state from, enum ibv_qp_state to, int *optional)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
        if (table[i].from == from && table[i].to == to) {
            *optional = table[i].optional;
            return table[i].required;
        }
    }
    return -1;
}

static struct ibv_qp *in_state(enum ibv_qp_state wanted)
{
    static const enum ibv_qp_state steps[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
    struct ibv_qp *qp = create_plain_qp(d.pd, d.cq, IBV_QPT_RC, 4);
    int optional = 0;
    for (size_t i = 0; i + 1 < sizeof(steps) / sizeof(steps[0]) && qp->state != wanted; ++i) {
        assert_int_equal(change(qp, steps[i], steps[i + 1], required_of(steps[i], steps[i + 1], &optional)), 0);
        if (wanted == IBV_QPS_ERR)
            assert_int_equal(change(qp, steps[i + 1], IBV_QPS_ERR, 0), 0);
    }
    assert_int_equal(qp->state, wanted);
    return qp;
}

static int try_change(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    struct ibv_qp *qp = in_state(from);
    const int result = change(qp, from, to, mask);
    assert_int_equal(qp->state, result == 0 ? to : from);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    return result;
}

TEST(every_attribute_is_required_optional_or_rejected)
{
    for (size_t f = 0; f < sizeof(states) / sizeof(states[0]); ++f) {
        for (size_t t = 0; t < sizeof(states) / sizeof(states[0]); ++t) {
            const enum ibv_qp_state from = states[f], to = states[t];
            int optional = 0;
            const int required = required_of(from, to, &optional);
            if (required < 0) {
                assert_int_equal(try_change(from, to, 0), EINVAL);
                continue;
            }
            assert_int_equal(try_change(from, to, required), 0);
            for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
                if ((required & bit) != 0)
                    assert_int_equal(try_change(from, to, required & ~bit), EINVAL);
                else
                    assert_int_equal(try_change(from, to, required | bit), (optional & bit) != 0 ? 0 : EINVAL);
            }
        }
    }
}

TEST(values_out_of_range_are_rejected)
{
    int optional = 0;
    struct ibv_qp *qp = in_state(IBV_QPS_INIT);
    const int required = required_of(IBV_QPS_INIT, IBV_QPS_RTR, &optional) | IBV_QP_STATE;
    struct ibv_qp_attr wrong[5];
    for (int i = 0; i < 5; ++i)
        wrong[i] = attributes(IBV_QPS_INIT, IBV_QPS_RTR);
    wrong[0].path_mtu = 6;
    wrong[1].min_rnr_timer = 32;
    wrong[2].max_dest_rd_atomic = 255;
    wrong[3].port_num = 2;
    wrong[4].pkey_index = 1;
    for (int i = 0; i < 3; ++i)
        assert_int_equal(ibv_modify_qp(qp, &wrong[i], required), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &wrong[3], IBV_QP_PORT), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &wrong[4], IBV_QP_PKEY_INDEX), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

TEST(a_wrong_current_state_is_rejected)
{
    struct ibv_qp *qp = in_state(IBV_QPS_RTS);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

TEST(requests_are_rejected_in_states_without_them)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
    struct ibv_qp *qp = in_state(IBV_QPS_RESET);
    assert_int_equal(post_empty_receive(qp, 5), EINVAL);
    assert_int_equal(change(qp, IBV_QPS_RESET, IBV_QPS_INIT, location), 0);
    assert_int_equal(post_empty_receive(qp, 5), 0);
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(change(qp, IBV_QPS_INIT, IBV_QPS_ERR, 0), 0);
    expect_completion(d.cq, 5, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

TEST(a_destroyed_queue_pair_removes_only_its_completions)
{
    struct ibv_qp *pairs[] = {in_state(IBV_QPS_INIT), in_state(IBV_QPS_INIT)};
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(post_empty_receive(pairs[i], i + 1), 0);
        assert_int_equal(change(pairs[i], IBV_QPS_INIT, IBV_QPS_ERR, 0), 0);
    }
    assert_int_equal(ibv_destroy_qp(pairs[0]), 0);
    expect_completion(d.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_destroy_qp(pairs[1]), 0);
}

GROUP_FIXTURE(open_queue, close_queue)

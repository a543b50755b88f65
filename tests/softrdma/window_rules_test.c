/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that memory windows may be bound to, when windows are invalid, and which objects own them. */
#include "windows.h"

type_2(a_message_with_an_unknown_key_invalidates_nothing)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    post_send_inv(ibv_inc_rkey(key), 8);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_REM_ACCESS_ERR);
    expect_completion(pair.server.cq, 7, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY); /* it is still bound */
}

type_2(a_region_is_not_invalidated_by_a_message)
{
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    post_send_inv(pair.server.mr->rkey, 8);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_REM_ACCESS_ERR);
}

/* Returns the description of a window to a region of its own. */
static struct ibv_mw_bind_info info_of_region(struct ibv_pd *pd, int access)
{
    struct ibv_mw_bind_info info = info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ);
    info.mr = (ibv_reg_mr)(pd, pair.server.memory, 4096, access);
    assert_non_null(info.mr);
    return info;
}

static void expect_bind_error(struct ibv_mw_bind_info info)
{
    assert_int_equal(post_bind(&pair.server, ibv_inc_rkey(mw->rkey), info), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_MW_BIND_ERR);
    assert_int_equal(pair.server.qp->state, IBV_QPS_ERR);
}

type_2(a_region_that_does_not_allow_it_is_not_bound_to)
{
    const struct ibv_mw_bind_info info = info_of_region(pair.server.pd, (int)everything);
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(info.mr), 0);
}

type_2(a_region_that_is_only_read_is_bound_to_for_reading_only)
{
    struct ibv_mw_bind_info info = info_of_region(pair.server.pd, IBV_ACCESS_MW_BIND);
    const uint32_t key = bind_2(info);
    use(IBV_WR_RDMA_READ, key, 0, IBV_WC_SUCCESS);
    invalidate(key);
    info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(info.mr), 0);
}

type_2(a_region_of_another_domain_is_not_bound_to)
{
    struct ibv_pd *pd = ibv_alloc_pd(pair.server.id->verbs);
    const struct ibv_mw_bind_info info = info_of_region(pd, bindable);
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(info.mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Beyond the region, of no bytes, and with a right that no window has. */
TEST(impossible_windows_are_not_bound)
{
    static const struct {
        size_t from, length;
        unsigned access;
    } impossible[] = {{4096 - 63, 64, IBV_ACCESS_REMOTE_READ}, {0, 0, IBV_ACCESS_REMOTE_READ},
            {0, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND}};
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); ++i) {
        open_type_2(state);
        expect_bind_error(info_of(&pair.server, impossible[i].from, impossible[i].length, impossible[i].access));
        close_all(state);
    }
}

type_2(a_bound_window_is_not_bound_again)
{
    bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    expect_bind_error(info_of(&pair.server, begin, bytes, reads_and_writes));
}

type_2(a_window_that_is_not_bound_is_not_invalidated)
{
    const struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey};
    assert_int_equal(post_bare(&pair.server, wr), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_MW_BIND_ERR);
}

type_2(invalid_requests_are_rejected_when_posted)
{
    struct ibv_mw *const type_2 = mw;
    struct ibv_mw *const type_1 = ibv_alloc_mw(pair.server.pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ)};
    assert_int_equal(ibv_bind_mw(pair.server.qp, type_2, &bind), EINVAL);
    assert_int_equal(post_bind(&pair.server, type_2->rkey ^ 0x100, bind.bind_info), EINVAL);
    bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    assert_int_equal(ibv_bind_mw(pair.server.qp, type_1, &bind), EINVAL);
    mw = type_1;
    assert_int_equal(post_bind(&pair.server, ibv_inc_rkey(type_1->rkey), bind.bind_info), EINVAL);
    mw = NULL;
    assert_int_equal(post_bind(&pair.server, 1, bind.bind_info), EINVAL);
    mw = type_2;
    assert_int_equal(ibv_dealloc_mw(type_1), 0);
    assert_null(ibv_alloc_mw(pair.server.pd, (enum ibv_mw_type)3));
    assert_int_equal(errno, EINVAL);
}

type_2(the_region_of_a_window_is_not_released)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY);
    errno = 0;
    assert_int_equal(ibv_rereg_mr(pair.server.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(ibv_dealloc_pd(pair.server.pd), EBUSY);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    mw = NULL;
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin], 0);
}

type_2(a_key_of_a_window_is_no_local_key)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_sge sge = {.addr = (uintptr_t)pair.server.memory + begin, .length = 8, .lkey = key};
    assert_int_equal(post_receive(&pair.client, 7, 0, 64), 0);
    assert_int_equal(
            post_bare(&pair.server, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}), 0);
    expect(pair.server.cq, IBV_WC_SEND, IBV_WC_LOC_PROT_ERR);
}

/* The protection domain is the same, but the queue pair is not. */
static void use_by_another_queue_pair(uint32_t key, enum ibv_wc_status status)
{
    struct pair other;
    open_pair(&other, &(struct options){.lender = &pair.server});
    use_from(&other.client, IBV_WR_RDMA_WRITE, key, (uintptr_t)pair.server.memory + begin, status);
    close_pair(&other);
}

type_2(a_window_of_type_2_belongs_to_a_queue_pair)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_belongs_to_a_domain)
{
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_SUCCESS);
}

type_1(a_window_of_type_1_gets_a_new_key_each_time)
{
    const uint32_t first = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, first, begin, IBV_WC_SUCCESS);
    const uint32_t second = bind_1(info_of(&pair.server, 0, 64, reads_and_writes));
    assert_int_not_equal(first, second);
    assert_int_equal(first >> 8, second >> 8);
    use(IBV_WR_RDMA_WRITE, second, 0, IBV_WC_SUCCESS);
    use(IBV_WR_RDMA_WRITE, first, 0, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_is_unbound_by_binding_nothing)
{
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY);
    bind_1((struct ibv_mw_bind_info){0});
    struct ibv_mr *mr = pair.server.mr;
    pair.server.mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_is_not_invalidated_by_requests)
{
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    const struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key};
    assert_int_equal(post_bare(&pair.server, wr), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_MW_BIND_ERR);
}

type_2(the_device_reports_windows)
{
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(pair.server.id->verbs, &attr), 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) == 0);
    assert_true(attr.max_mw > 0);
}

/* Returns a queue pair of the server whose peer does not exist. */
static struct side open_lonely(void)
{
    struct side lonely = pair.server;
    struct ibv_qp_attr attr = connection_to(lonely.id->verbs, 0x101);
    attr.timeout = 0; /* waits forever */
    lonely.qp = create_rc_qp(lonely.pd, lonely.cq, 4);
    connect_qp(lonely.qp, attr);
    return lonely;
}

type_1(a_window_of_type_1_is_bound_without_a_peer)
{
    struct side lonely = open_lonely();
    struct ibv_mw_bind bind = {.wr_id = 99,
            .send_flags = IBV_SEND_SIGNALED,
            .bind_info = info_of(&lonely, begin, bytes, reads_and_writes)};
    assert_int_equal(ibv_bind_mw(lonely.qp, mw, &bind), 0);
    expect(lonely.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(lonely.qp), 0);
}

type_2(a_window_of_type_2_is_bound_and_invalidated_without_a_peer)
{
    struct side lonely = open_lonely();
    const uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind(&lonely, key, info_of(&lonely, begin, bytes, reads_and_writes)), 0);
    expect(lonely.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    const struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key};
    assert_int_equal(post_bare(&lonely, wr), 0);
    expect(lonely.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(lonely.qp), 0);
}

/* Requests of a queue pair complete in order. */
type_2(a_bind_does_not_overtake_a_request_for_the_peer)
{
    struct side lonely = open_lonely();
    assert_int_equal(post(&lonely, IBV_WR_RDMA_WRITE, 1, 0, 8, &lonely, 8, 0), 0);
    assert_int_equal(post_bind(&lonely, ibv_inc_rkey(mw->rkey), info_of(&lonely, begin, bytes, reads_and_writes)), 0);
    assert_int_equal(enter_state(lonely.qp, IBV_QPS_ERR), 0);
    expect_completion(lonely.cq, 1, IBV_WC_WR_FLUSH_ERR);
    expect(lonely.cq, IBV_WC_BIND_MW, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_destroy_qp(lonely.qp), 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: the server binds them, the client uses them. */
#include "fixture.h"
#include "native.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
    bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, /* which gives peers no right */
    reads_and_writes = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    begin = 1024, /* of most windows */
    bytes = 512,
    window_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV,
};

static struct pair pair;
static struct ibv_mw *mw;

static void open_with(const struct options *options, enum ibv_mw_type type)
{
    open_pair(&pair, options);
    mw = ibv_alloc_mw(pair.server.pd, type);
    assert_non_null(mw);
    assert_int_equal(mw->type, type);
}

static int open_type_1(void **state)
{
    (void)state;
    open_with(&(struct options){.server_access = bindable}, IBV_MW_TYPE_1);
    return 0;
}

static int open_type_2(void **state)
{
    (void)state;
    open_with(
            &(struct options){.server_access = bindable, .send_ops = window_ops | IBV_QP_EX_WITH_SEND}, IBV_MW_TYPE_2);
    return 0;
}

static int open_file(void **state)
{
    (void)state;
    open_with(&(struct options){.server_access = bindable, .server_memory = map_file(4096, MAP_SHARED, NULL)},
            IBV_MW_TYPE_2);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    uint8_t *mapped = pair.server.mapped ? pair.server.memory : NULL;
    if (mw != NULL)
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_pair(&pair);
    if (mapped != NULL)
        munmap(mapped, 4096);
    return 0;
}

static struct ibv_mw_bind_info info_of(struct side *s, size_t from, size_t length, unsigned access)
{
    return (struct ibv_mw_bind_info){
            .mr = s->mr, .addr = (uintptr_t)s->memory + from, .length = length, .mw_access_flags = access};
}

/* A request without data. */
static int post_bare(struct side *s, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad = NULL;
    wr.wr_id = 99;
    wr.send_flags |= IBV_SEND_SIGNALED;
    return ibv_post_send(s->qp, &wr, &bad);
}

static int post_bind(struct side *s, uint32_t key, struct ibv_mw_bind_info info)
{
    return post_bare(
            s, (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw, .rkey = key, .bind_info = info}});
}

static void expect(struct ibv_cq *cq, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
    const struct ibv_wc wc = next_completion(cq);
    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, 99);
    if (status == IBV_WC_SUCCESS)
        assert_int_equal(wc.opcode, opcode);
}

/* With the next variant of its key, which is returned. */
static uint32_t bind_2(struct ibv_mw_bind_info info)
{
    const uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind(&pair.server, key, info), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    mw->rkey = key;
    return key;
}

static uint32_t bind_1(struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = {.wr_id = 99, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    assert_int_equal(ibv_bind_mw(pair.server.qp, mw, &bind), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    return mw->rkey;
}

static void invalidate(uint32_t key)
{
    assert_int_equal(
            post_bare(&pair.server, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key}), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);
}

/* Of the client, 8 bytes. */
static void use_from(
        struct side *client, enum ibv_wr_opcode opcode, uint32_t key, uint64_t addr, enum ibv_wc_status status)
{
    struct ibv_mr mr = {.rkey = key};
    const struct side target = {.memory = (uint8_t *)(uintptr_t)addr, .mr = &mr};
    assert_int_equal(post(client, opcode, 1, 0, 8, &target, 0, 0), 0);
    expect_completion(client->cq, 1, status);
}

static void use(enum ibv_wr_opcode opcode, uint32_t key, size_t offset, enum ibv_wc_status status)
{
    use_from(&pair.client, opcode, key, (uintptr_t)pair.server.memory + offset, status);
}

static void a_bound_window_gives_rights_that_its_region_does_not(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    fill(pair.client.memory, 8, 3);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin, pair.client.memory, 8);
    fill(pair.server.memory + begin + bytes - 8, 8, 4);
    use(IBV_WR_RDMA_READ, key, begin + bytes - 8, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin + bytes - 8, pair.client.memory, 8);
    use(IBV_WR_RDMA_WRITE, pair.server.mr->rkey, begin, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_ends_where_it_was_bound_to(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin + bytes - 7, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin + bytes - 7], 0);
}

static void a_window_begins_where_it_was_bound_to(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_READ, key, begin - 1, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_to_read_is_not_written(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_READ));
    use(IBV_WR_RDMA_READ, key, begin, IBV_WC_SUCCESS);
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin], 0);
}

static void a_window_to_write_is_not_read(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_WRITE));
    use(IBV_WR_RDMA_READ, key, begin, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_without_atomics_has_none(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_sge sge = {.addr = (uintptr_t)pair.client.memory, .length = 8, .lkey = pair.client.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
            .sg_list = &sge,
            .num_sge = 1,
            .wr.atomic = {.remote_addr = (uintptr_t)pair.server.memory + begin, .compare_add = 5, .rkey = key}};
    assert_int_equal(post_bare(&pair.client, wr), 0);
    expect(pair.client.cq, IBV_WC_FETCH_ADD, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin], 0);
}

static void a_window_with_atomics_executes_them(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_ATOMIC));
    struct ibv_sge sge = {.addr = (uintptr_t)pair.client.memory, .length = 8, .lkey = pair.client.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
            .sg_list = &sge,
            .num_sge = 1,
            .wr.atomic = {.remote_addr = (uintptr_t)pair.server.memory + begin, .compare_add = 5, .rkey = key}};
    assert_int_equal(post_bare(&pair.client, wr), 0);
    expect(pair.client.cq, IBV_WC_FETCH_ADD, IBV_WC_SUCCESS);
    assert_int_equal(pair.server.memory[begin], 5);
}

static void an_invalidated_window_is_found_no_more(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    invalidate(key);
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin], 0);
}

static void a_window_is_bound_anew_once_it_is_invalid(void **state)
{
    (void)state;
    const uint32_t old = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, old, begin, IBV_WC_SUCCESS);
    invalidate(old);
    const uint32_t key = bind_2(info_of(&pair.server, 0, 64, reads_and_writes));
    assert_int_not_equal(key, old);
    fill(pair.client.memory, 8, 7);
    use(IBV_WR_RDMA_WRITE, key, 0, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory, pair.client.memory, 8);
    use(IBV_WR_RDMA_WRITE, old, 0, IBV_WC_REM_ACCESS_ERR);
}

static void all_variants_of_a_key_can_be_bound_in_turn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; ++i) {
        const uint32_t key = bind_2(info_of(&pair.server, 8 * i, 8, IBV_ACCESS_REMOTE_WRITE));
        memset(pair.client.memory, (int)(1 + i % 255), 8);
        use(IBV_WR_RDMA_WRITE, key, 8 * i, IBV_WC_SUCCESS);
        assert_int_equal(pair.server.memory[8 * i], 1 + i % 255);
        invalidate(key);
    }
}

static void post_send_inv(uint32_t key, size_t length)
{
    struct ibv_sge sge = {
            .addr = (uintptr_t)pair.client.memory, .length = (uint32_t)length, .lkey = pair.client.mr->lkey};
    assert_int_equal(post_bare(&pair.client, (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV,
                                                     .invalidate_rkey = key,
                                                     .sg_list = &sge,
                                                     .num_sge = length > 0}),
            0);
}

/* The last of what uses the window is executed, and the first after it is not. */
static void a_message_invalidates_a_window_of_its_receiver(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    fill(pair.client.memory, 64, 5);
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    post_send_inv(key, 64);
    const struct ibv_wc wc = next_completion(pair.server.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 64);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, key);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory, pair.client.memory, 64);
    assert_memory_equal(pair.server.memory + begin, pair.client.memory, 8);
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, key, begin + 8, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin + 8], 0);
}

static void the_region_goes_when_its_window_was_invalidated_by_the_peer(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_mr *other = ibv_reg_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(other);
    struct ibv_sge sge = {.addr = (uintptr_t)pair.server.memory, .length = 64, .lkey = other->lkey};
    struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    assert_int_equal(ibv_post_recv(pair.server.qp, &wr, &bad), 0);
    post_send_inv(key, 0);
    expect_completion(pair.server.cq, 7, IBV_WC_SUCCESS);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(pair.server.mr), 0);
    pair.server.mr = other; /* closed with the rest */
}

static void a_message_with_an_unknown_key_invalidates_nothing(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    post_send_inv(ibv_inc_rkey(key), 8);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_REM_ACCESS_ERR);
    expect_completion(pair.server.cq, 7, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY); /* it is still bound */
}

static void a_region_is_not_invalidated_by_a_message(void **state)
{
    (void)state;
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    post_send_inv(pair.server.mr->rkey, 8);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_REM_ACCESS_ERR);
}

static void expect_bind_error(struct ibv_mw_bind_info info)
{
    assert_int_equal(post_bind(&pair.server, ibv_inc_rkey(mw->rkey), info), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_MW_BIND_ERR);
    assert_int_equal(pair.server.qp->state, IBV_QPS_ERR);
}

static void a_region_that_does_not_allow_it_is_not_bound_to(void **state)
{
    (void)state;
    struct ibv_mr *mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 4096, (int)everything);
    struct ibv_mw_bind_info info = info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    info.mr = mr;
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_region_that_is_only_read_is_bound_to_for_reading_only(void **state)
{
    (void)state;
    struct ibv_mr *mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 4096, IBV_ACCESS_MW_BIND);
    struct ibv_mw_bind_info info = info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    info.mr = mr;
    const uint32_t key = bind_2(info);
    use(IBV_WR_RDMA_READ, key, 0, IBV_WC_SUCCESS);
    invalidate(key);
    info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void a_region_of_another_domain_is_not_bound_to(void **state)
{
    (void)state;
    struct ibv_pd *pd = ibv_alloc_pd(pair.server.id->verbs);
    struct ibv_mr *mr = ibv_reg_mr(pd, pair.server.memory, 4096, bindable);
    struct ibv_mw_bind_info info = info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    info.mr = mr;
    expect_bind_error(info);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_window_does_not_reach_beyond_its_region(void **state)
{
    (void)state;
    expect_bind_error(info_of(&pair.server, 4096 - 63, 64, IBV_ACCESS_REMOTE_READ));
}

static void a_window_of_no_bytes_is_not_bound(void **state)
{
    (void)state;
    expect_bind_error(info_of(&pair.server, 0, 0, IBV_ACCESS_REMOTE_READ));
}

static void rights_that_no_window_has_are_refused(void **state)
{
    (void)state;
    expect_bind_error(info_of(&pair.server, 0, 64, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND));
}

static void a_bound_window_is_not_bound_again(void **state)
{
    (void)state;
    bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    expect_bind_error(info_of(&pair.server, begin, bytes, reads_and_writes));
}

static void a_window_that_is_not_bound_is_not_invalidated(void **state)
{
    (void)state;
    const struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey};
    assert_int_equal(post_bare(&pair.server, wr), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_MW_BIND_ERR);
}

static void what_cannot_be_meant_is_refused_when_it_is_posted(void **state)
{
    (void)state;
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

static void addresses_of_a_window_may_begin_with_zero(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes | IBV_ACCESS_ZERO_BASED));
    fill(pair.client.memory, 8, 9);
    use_from(&pair.client, IBV_WR_RDMA_WRITE, key, bytes - 8, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin + bytes - 8, pair.client.memory, 8);
    use_from(&pair.client, IBV_WR_RDMA_WRITE, key, bytes - 7, IBV_WC_REM_ACCESS_ERR);
}

static void what_a_window_needs_is_not_given_back(void **state)
{
    (void)state;
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

static void a_key_of_a_window_is_no_local_key(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_sge sge = {.addr = (uintptr_t)pair.server.memory + begin, .length = 8, .lkey = key};
    assert_int_equal(post_receive(&pair.client, 7, 0, 64), 0);
    assert_int_equal(
            post_bare(&pair.server, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}), 0);
    expect(pair.server.cq, IBV_WC_SEND, IBV_WC_LOC_PROT_ERR);
}

/* The domain is the same, the queue pair is not. */
static void use_by_another_queue_pair(uint32_t key, enum ibv_wc_status status)
{
    struct pair other;
    open_pair(&other, &(struct options){.lender = &pair.server});
    struct ibv_mr mr = {.rkey = key};
    struct ibv_sge sge = {.addr = (uintptr_t)pair.server.memory, .length = 8, .lkey = pair.server.mr->lkey};
    const struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
            .sg_list = &sge,
            .num_sge = 1,
            .wr.rdma = {.remote_addr = (uintptr_t)pair.server.memory + begin, .rkey = mr.rkey}};
    assert_int_equal(post_bare(&other.client, wr), 0);
    expect(other.client.cq, IBV_WC_RDMA_WRITE, status);
    close_pair(&other);
}

static void a_window_of_type_2_belongs_to_a_queue_pair(void **state)
{
    (void)state;
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_of_type_1_belongs_to_a_domain(void **state)
{
    (void)state;
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_SUCCESS);
}

static void a_window_of_type_1_gets_a_new_key_each_time(void **state)
{
    (void)state;
    const uint32_t first = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, first, begin, IBV_WC_SUCCESS);
    const uint32_t second = bind_1(info_of(&pair.server, 0, 64, reads_and_writes));
    assert_int_not_equal(first, second);
    assert_int_equal(first >> 8, second >> 8);
    use(IBV_WR_RDMA_WRITE, second, 0, IBV_WC_SUCCESS);
    use(IBV_WR_RDMA_WRITE, first, 0, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_of_type_1_is_unbound_by_binding_nothing(void **state)
{
    (void)state;
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY);
    bind_1((struct ibv_mw_bind_info){0});
    struct ibv_mr *mr = pair.server.mr;
    pair.server.mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
}

static void a_window_of_type_1_is_not_invalidated_by_requests(void **state)
{
    (void)state;
    const uint32_t key = bind_1(info_of(&pair.server, begin, bytes, reads_and_writes));
    const struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key};
    assert_int_equal(post_bare(&pair.server, wr), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_MW_BIND_ERR);
}

/* What the client binds is used by the server. */
static void the_new_interface_binds_and_invalidates(void **state)
{
    (void)state;
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.client.qp);
    struct ibv_mr *mr = ibv_reg_mr(pair.client.pd, pair.client.memory, 4096, bindable);
    struct ibv_mw *own = ibv_alloc_mw(pair.client.pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = info_of(&pair.client, begin, bytes, reads_and_writes);
    info.mr = mr;
    const uint32_t key = ibv_inc_rkey(own->rkey);
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    ibv_wr_start(qp);
    qp->wr_id = 99;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(qp, own, key, &info);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, pair.client.mr->lkey, (uintptr_t)pair.client.memory, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect(pair.client.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
    expect_completion(pair.server.cq, 7, IBV_WC_SUCCESS);
    fill(pair.server.memory, 8, 11);
    use_from(&pair.server, IBV_WR_RDMA_WRITE, key, (uintptr_t)pair.client.memory + begin, IBV_WC_SUCCESS);
    assert_memory_equal(pair.client.memory + begin, pair.server.memory, 8);
    ibv_wr_start(qp);
    ibv_wr_local_inv(qp, key);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect(pair.client.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);

    const uint32_t theirs = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(post_receive(&pair.server, 7, 0, 64), 0);
    ibv_wr_start(qp);
    ibv_wr_send_inv(qp, theirs);
    ibv_wr_set_sge(qp, pair.client.mr->lkey, (uintptr_t)pair.client.memory, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    const struct ibv_wc wc = next_completion(pair.server.cq);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, theirs);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);

    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, own, key ^ 0x100, &info);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(ibv_dealloc_mw(own), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Each request is executed in its turn, whichever path it takes. */
static void requests_and_windows_keep_their_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; ++i) {
        const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_WRITE));
        struct ibv_mr mr = {.rkey = key};
        const struct side target = {.memory = pair.server.memory, .mr = &mr};
        assert_int_equal(post_receive(&pair.server, 7, 0, 8), 0);
        for (unsigned j = 0; j < 8; ++j) {
            memset(pair.client.memory + 8 * j, (int)(i + 1), 8);
            assert_int_equal(post(&pair.client, IBV_WR_RDMA_WRITE, 1, 8 * j, 8, &target, begin + 8 * j, 0), 0);
        }
        post_send_inv(key, 8);
        for (unsigned j = 0; j < 8; ++j)
            expect_completion(pair.client.cq, 1, IBV_WC_SUCCESS);
        expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
        expect_completion(pair.server.cq, 7, IBV_WC_SUCCESS);
        for (unsigned j = 0; j < 8; ++j)
            assert_int_equal(pair.server.memory[begin + 8 * j], i + 1);
    }
}

/* Unsignalled, on the way to which the answers to what precedes it may wait. */
static void a_window_is_bound_after_what_precedes_it(void **state)
{
    (void)state;
    struct ibv_sge sge = {.addr = (uintptr_t)pair.server.memory, .length = 8, .lkey = pair.server.mr->lkey};
    const uint32_t key = ibv_inc_rkey(mw->rkey);
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr last = {.wr_id = 99, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr bind = {.next = &last,
            .opcode = IBV_WR_BIND_MW,
            .bind_mw = {.mw = mw, .rkey = key, .bind_info = info_of(&pair.server, begin, bytes, reads_and_writes)}};
    struct ibv_send_wr write = {.next = &bind,
            .opcode = IBV_WR_RDMA_WRITE,
            .sg_list = &sge,
            .num_sge = 1,
            .wr.rdma = {.remote_addr = (uintptr_t)pair.client.memory, .rkey = pair.client.mr->rkey}};
    last.invalidate_rkey = key;
    fill(pair.server.memory, 8, 13);
    assert_int_equal(ibv_post_send(pair.server.qp, &write, &bad), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);
    assert_memory_equal(pair.client.memory, pair.server.memory, 8);
}

static void a_window_to_a_file_is_written_and_read(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t key = bind_2(info_of(&pair.server, 256 * i, bytes, reads_and_writes));
        fill(pair.client.memory, 8, i);
        use(IBV_WR_RDMA_WRITE, key, 256 * i + 8, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.memory + 256 * i + 8, pair.client.memory, 8);
        memset(pair.client.memory, 0, 8);
        use(IBV_WR_RDMA_READ, key, 256 * i + 8, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.memory + 256 * i + 8, pair.client.memory, 8);
        invalidate(key);
    }
}

static void the_device_says_that_it_has_windows(void **state)
{
    (void)state;
    struct ibv_device_attr attr;
    assert_int_equal(ibv_query_device(pair.server.id->verbs, &attr), 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) == 0);
    assert_true(attr.max_mw > 0);
}

#define type_1(test) cmocka_unit_test_setup_teardown(test, open_type_1, close_all)
#define type_2(test) cmocka_unit_test_setup_teardown(test, open_type_2, close_all)

int main(int count, char **arguments)
{
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    const struct CMUnitTest tests[] = {
            type_2(a_bound_window_gives_rights_that_its_region_does_not),
            type_2(a_window_ends_where_it_was_bound_to),
            type_2(a_window_begins_where_it_was_bound_to),
            type_2(a_window_to_read_is_not_written),
            type_2(a_window_to_write_is_not_read),
            type_2(a_window_without_atomics_has_none),
            type_2(a_window_with_atomics_executes_them),
            type_2(an_invalidated_window_is_found_no_more),
            type_2(a_window_is_bound_anew_once_it_is_invalid),
            type_2(all_variants_of_a_key_can_be_bound_in_turn),
            type_2(a_message_invalidates_a_window_of_its_receiver),
            type_2(the_region_goes_when_its_window_was_invalidated_by_the_peer),
            type_2(a_message_with_an_unknown_key_invalidates_nothing),
            type_2(a_region_is_not_invalidated_by_a_message),
            type_2(a_region_that_does_not_allow_it_is_not_bound_to),
            type_2(a_region_that_is_only_read_is_bound_to_for_reading_only),
            type_2(a_region_of_another_domain_is_not_bound_to),
            type_2(a_window_does_not_reach_beyond_its_region),
            type_2(a_window_of_no_bytes_is_not_bound),
            type_2(rights_that_no_window_has_are_refused),
            type_2(a_bound_window_is_not_bound_again),
            type_2(a_window_that_is_not_bound_is_not_invalidated),
            type_2(what_cannot_be_meant_is_refused_when_it_is_posted),
            type_2(addresses_of_a_window_may_begin_with_zero),
            type_2(what_a_window_needs_is_not_given_back),
            type_2(a_key_of_a_window_is_no_local_key),
            type_2(a_window_of_type_2_belongs_to_a_queue_pair),
            type_1(a_window_of_type_1_belongs_to_a_domain),
            type_1(a_window_of_type_1_gets_a_new_key_each_time),
            type_1(a_window_of_type_1_is_unbound_by_binding_nothing),
            type_1(a_window_of_type_1_is_not_invalidated_by_requests),
            type_2(the_new_interface_binds_and_invalidates),
            type_2(requests_and_windows_keep_their_order),
            type_2(a_window_is_bound_after_what_precedes_it),
            cmocka_unit_test_setup_teardown(a_window_to_a_file_is_written_and_read, open_file, close_all),
            type_2(the_device_says_that_it_has_windows),
    };
    return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}

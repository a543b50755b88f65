/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: operations of peers on them, objects that they may be bound to, when they are invalid, and which
 * objects own them. */
#include "fixture.h"

#include <sys/mman.h>

enum {
    bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, /* gives peers no access */
    reads_and_writes = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    begin = 1024, /* offset of most windows */
    bytes = 512,
    window_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV,
};

/* A connection, and a window that the server binds and the client uses. */
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
    open_with(&(struct options){.server_access = bindable}, IBV_MW_TYPE_1);
    return 0;
}

static int open_type_2(void **state)
{
    open_with(
            &(struct options){.server_access = bindable, .send_ops = window_ops | IBV_QP_EX_WITH_SEND}, IBV_MW_TYPE_2);
    return 0;
}

static int open_file(void **state)
{
    open_with(&(struct options){.server_access = bindable, .server_file = MAP_SHARED}, IBV_MW_TYPE_2);
    return 0;
}

static int close_all(void **state)
{
    if (mw != NULL)
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_pair(&pair);
    return 0;
}

#define type_1(test) DEFINE_TEST(test, open_type_1, close_all)
#define type_2(test) DEFINE_TEST(test, open_type_2, close_all)

static struct ibv_mw_bind_info info_of(struct side *s, size_t from, size_t length, unsigned access)
{
    return (struct ibv_mw_bind_info){
            .mr = s->mr, .addr = (uintptr_t)s->memory + from, .length = length, .mw_access_flags = access};
}

/* Posts a request without data. */
static int post_bare(struct side *s, struct ibv_send_wr wr)
{
    wr.wr_id = 99;
    wr.send_flags |= IBV_SEND_SIGNALED;
    return post_wr(s, wr);
}

static int post_bind(struct side *s, uint32_t key, struct ibv_mw_bind_info info)
{
    return post_bare(
            s, (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw, .rkey = key, .bind_info = info}});
}

/* Checks the next completion. */
static void expect(struct ibv_cq *cq, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
    const struct ibv_wc wc = expect_completion(cq, 99, status);
    if (status == IBV_WC_SUCCESS)
        assert_int_equal(wc.opcode, opcode);
}

/* These two functions return the key. The key of a type 2 window has the next variant. */
static uint32_t bind_2(struct side *s, struct ibv_mw_bind_info info)
{
    const uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind(s, key, info), 0);
    expect(s->cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    mw->rkey = key;
    return key;
}

static uint32_t bind_1(struct side *s, struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = {.wr_id = 99, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    assert_int_equal(ibv_bind_mw(s->qp, mw, &bind), 0);
    expect(s->cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    return mw->rkey;
}

static void invalidate(struct side *s, uint32_t key, enum ibv_wc_status status)
{
    assert_int_equal(post_bare(s, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key}), 0);
    expect(s->cq, IBV_WC_LOCAL_INV, status);
}

/* Posts a request of 8 bytes at the client. */
static void use_from(
        struct side *client, enum ibv_wr_opcode opcode, uint32_t key, uint64_t addr, enum ibv_wc_status status)
{
    struct ibv_mr mr = {.rkey = key};
    const struct side target = {.memory = (uint8_t *)(uintptr_t)addr, .mr = &mr};
    post_and_expect(client, opcode, 1, 0, 8, &target, 0, status);
}

static void use(enum ibv_wr_opcode opcode, uint32_t key, size_t offset, enum ibv_wc_status status)
{
    use_from(&pair.client, opcode, key, (uintptr_t)pair.server.memory + offset, status);
}

/* Posts a SEND at the client that invalidates a window of the server. */
static void post_send_inv(uint32_t key, size_t length)
{
    struct ibv_sge sge = sge_of(&pair.client, 0, length);
    assert_int_equal(post_bare(&pair.client, (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV,
                                                     .invalidate_rkey = key,
                                                     .sg_list = &sge,
                                                     .num_sge = length > 0}),
            0);
}

type_2(a_bound_window_gives_rights_that_its_region_does_not)
{
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    fill(pair.client.memory, 8, 3);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin, pair.client.memory, 8);
    fill(pair.server.memory + begin + bytes - 8, 8, 4);
    use(IBV_WR_RDMA_READ, key, begin + bytes - 8, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin + bytes - 8, pair.client.memory, 8);
    use(IBV_WR_RDMA_WRITE, pair.server.mr->rkey, begin, IBV_WC_REM_ACCESS_ERR);
}

/* A failing request ends the connection, so each case has its own. */
TEST(a_window_is_used_within_its_bounds_and_rights_only)
{
    static const struct {
        unsigned access;
        enum ibv_wr_opcode opcode;
        size_t offset;
    } rejected[] = {{reads_and_writes, IBV_WR_RDMA_WRITE, begin + bytes - 7},
            {reads_and_writes, IBV_WR_RDMA_READ, begin - 1}, {IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, begin},
            {IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, begin}};
    for (size_t i = 0; i < sizeof(rejected) / sizeof(rejected[0]); ++i) {
        open_type_2(state);
        const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, rejected[i].access));
        if (rejected[i].access == IBV_ACCESS_REMOTE_READ)
            use(IBV_WR_RDMA_READ, key, begin, IBV_WC_SUCCESS);
        memset(pair.client.memory, 1, 8);
        use(rejected[i].opcode, key, rejected[i].offset, IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(pair.server.memory[rejected[i].offset], 0);
        close_all(state);
    }
}

static void fetch_and_add(uint32_t key, enum ibv_wc_status status, uint8_t expected)
{
    struct ibv_mr mr = {.rkey = key};
    const struct side target = {.memory = pair.server.memory, .mr = &mr};
    assert_int_equal(post_atomic(&pair.client, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &target, begin, 5, 0), 0);
    expect_completion(pair.client.cq, 1, status);
    assert_int_equal(pair.server.memory[begin], expected);
}

type_2(a_window_without_atomics_rejects_them)
{
    fetch_and_add(
            bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes)), IBV_WC_REM_ACCESS_ERR, 0);
}

type_2(a_window_with_atomics_executes_them)
{
    fetch_and_add(
            bind_2(&pair.server, info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_ATOMIC)), IBV_WC_SUCCESS, 5);
}

type_2(an_invalidated_window_can_be_bound_again)
{
    const uint32_t old = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, old, begin, IBV_WC_SUCCESS);
    invalidate(&pair.server, old, IBV_WC_SUCCESS);
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, 0, 64, reads_and_writes));
    assert_int_not_equal(key, old);
    fill(pair.client.memory, 8, 7);
    use(IBV_WR_RDMA_WRITE, key, 0, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory, pair.client.memory, 8);
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, old, begin, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin], 0);
}

type_2(all_variants_of_a_key_can_be_bound_in_turn)
{
    for (unsigned i = 0; i < 300; ++i) {
        const uint32_t key = bind_2(&pair.server, info_of(&pair.server, 8 * i, 8, IBV_ACCESS_REMOTE_WRITE));
        memset(pair.client.memory, (int)(1 + i % 255), 8);
        use(IBV_WR_RDMA_WRITE, key, 8 * i, IBV_WC_SUCCESS);
        assert_int_equal(pair.server.memory[8 * i], 1 + i % 255);
        invalidate(&pair.server, key, IBV_WC_SUCCESS);
    }
}

/* A request before the invalidating message still uses the window; one after it is rejected. */
type_2(a_message_invalidates_a_window_of_its_receiver)
{
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    const uint32_t length = 2000;
    const size_t offset = begin + bytes;
    fill(pair.client.memory, length, 5);
    assert_int_equal(post_receive(&pair.server, 7, offset, length), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    post_send_inv(key, length);
    const struct ibv_wc wc = expect_completion(pair.server.cq, 7, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, length);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, key);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + offset, pair.client.memory, length);
    assert_memory_equal(pair.server.memory + begin, pair.client.memory, 8);
    memset(pair.client.memory, 1, 8);
    use(IBV_WR_RDMA_WRITE, key, begin + 8, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.server.memory[begin + 8], 0);
}

type_2(a_region_can_be_deregistered_after_the_peer_invalidated_its_window)
{
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_mr *other = create_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    struct side receiver = pair.server;
    receiver.mr = other;
    assert_int_equal(post_receive(&receiver, 7, 0, 64), 0);
    post_send_inv(key, 0);
    expect_completion(pair.server.cq, 7, IBV_WC_SUCCESS);
    expect(pair.client.cq, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(pair.server.mr), 0);
    pair.server.mr = other; /* closed with the pair */
}

type_2(addresses_of_a_window_may_begin_with_zero)
{
    const uint32_t key =
            bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes | IBV_ACCESS_ZERO_BASED));
    fill(pair.client.memory, 8, 9);
    use_from(&pair.client, IBV_WR_RDMA_WRITE, key, bytes - 8, IBV_WC_SUCCESS);
    assert_memory_equal(pair.server.memory + begin + bytes - 8, pair.client.memory, 8);
    use_from(&pair.client, IBV_WR_RDMA_WRITE, key, bytes - 7, IBV_WC_REM_ACCESS_ERR);
}

/* The server uses windows that the client binds. */
type_2(the_new_interface_binds_and_invalidates)
{
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

    const uint32_t theirs = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
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

/* Requests execute in order, whichever path they take. */
type_2(requests_and_windows_keep_their_order)
{
    for (unsigned i = 0; i < 50; ++i) {
        const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_WRITE));
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

/* The bind is unsignaled, and acknowledgments of earlier requests may be pending. */
type_2(a_window_is_bound_after_what_precedes_it)
{
    struct ibv_sge sge = sge_of(&pair.server, 0, 8);
    const uint32_t key = ibv_inc_rkey(mw->rkey);
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
    assert_int_equal(post_wr(&pair.server, write), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);
    assert_memory_equal(pair.client.memory, pair.server.memory, 8);
}

DEFINE_TEST(a_window_to_a_file_is_written_and_read, open_file, close_all)
{
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t key = bind_2(&pair.server, info_of(&pair.server, 256 * i, bytes, reads_and_writes));
        fill(pair.client.memory, 8, i);
        use(IBV_WR_RDMA_WRITE, key, 256 * i + 8, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.memory + 256 * i + 8, pair.client.memory, 8);
        memset(pair.client.memory, 0, 8);
        use(IBV_WR_RDMA_READ, key, 256 * i + 8, IBV_WC_SUCCESS);
        assert_memory_equal(pair.server.memory + 256 * i + 8, pair.client.memory, 8);
        invalidate(&pair.server, key, IBV_WC_SUCCESS);
    }
}

type_2(a_message_with_an_unknown_key_invalidates_nothing)
{
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
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
    info.mr = create_mr(pd, pair.server.memory, 4096, access);
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
    const uint32_t key = bind_2(&pair.server, info);
    use(IBV_WR_RDMA_READ, key, 0, IBV_WC_SUCCESS);
    invalidate(&pair.server, key, IBV_WC_SUCCESS);
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
    bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    expect_bind_error(info_of(&pair.server, begin, bytes, reads_and_writes));
}

type_2(a_window_that_is_not_bound_is_not_invalidated)
{
    invalidate(&pair.server, mw->rkey, IBV_WC_MW_BIND_ERR);
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
    expect_null(ibv_alloc_mw(pair.server.pd, (enum ibv_mw_type)3), EINVAL);
}

type_2(the_region_of_a_window_is_not_released)
{
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
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
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
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
    const uint32_t key = bind_2(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_belongs_to_a_domain)
{
    const uint32_t key = bind_1(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    use_by_another_queue_pair(key, IBV_WC_SUCCESS);
}

type_1(a_window_of_type_1_gets_a_new_key_each_time)
{
    const uint32_t first = bind_1(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, first, begin, IBV_WC_SUCCESS);
    const uint32_t second = bind_1(&pair.server, info_of(&pair.server, 0, 64, reads_and_writes));
    assert_int_not_equal(first, second);
    assert_int_equal(first >> 8, second >> 8);
    use(IBV_WR_RDMA_WRITE, second, 0, IBV_WC_SUCCESS);
    use(IBV_WR_RDMA_WRITE, first, 0, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_is_unbound_by_binding_nothing)
{
    const uint32_t key = bind_1(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    assert_int_equal(ibv_dereg_mr(pair.server.mr), EBUSY);
    bind_1(&pair.server, (struct ibv_mw_bind_info){0});
    struct ibv_mr *mr = pair.server.mr;
    pair.server.mr = ibv_reg_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_REM_ACCESS_ERR);
}

type_1(a_window_of_type_1_is_not_invalidated_by_requests)
{
    const uint32_t key = bind_1(&pair.server, info_of(&pair.server, begin, bytes, reads_and_writes));
    invalidate(&pair.server, key, IBV_WC_MW_BIND_ERR);
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
    lonely.qp = create_plain_qp(lonely.pd, lonely.cq, IBV_QPT_RC, 4);
    connect_qp(lonely.qp, attr);
    return lonely;
}

type_1(a_window_of_type_1_is_bound_without_a_peer)
{
    struct side lonely = open_lonely();
    bind_1(&lonely, info_of(&lonely, begin, bytes, reads_and_writes));
    assert_int_equal(ibv_destroy_qp(lonely.qp), 0);
}

type_2(a_window_of_type_2_is_bound_and_invalidated_without_a_peer)
{
    struct side lonely = open_lonely();
    invalidate(&lonely, bind_2(&lonely, info_of(&lonely, begin, bytes, reads_and_writes)), IBV_WC_SUCCESS);
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

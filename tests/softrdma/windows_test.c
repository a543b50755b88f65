/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of peers on memory windows. */
#include "windows.h"

type_2(a_bound_window_gives_rights_that_its_region_does_not)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
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
        const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, rejected[i].access));
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
    fetch_and_add(bind_2(info_of(&pair.server, begin, bytes, reads_and_writes)), IBV_WC_REM_ACCESS_ERR, 0);
}

type_2(a_window_with_atomics_executes_them)
{
    fetch_and_add(bind_2(info_of(&pair.server, begin, bytes, IBV_ACCESS_REMOTE_ATOMIC)), IBV_WC_SUCCESS, 5);
}

type_2(an_invalidated_window_can_be_bound_again)
{
    const uint32_t old = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    use(IBV_WR_RDMA_WRITE, old, begin, IBV_WC_SUCCESS);
    invalidate(old);
    const uint32_t key = bind_2(info_of(&pair.server, 0, 64, reads_and_writes));
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
        const uint32_t key = bind_2(info_of(&pair.server, 8 * i, 8, IBV_ACCESS_REMOTE_WRITE));
        memset(pair.client.memory, (int)(1 + i % 255), 8);
        use(IBV_WR_RDMA_WRITE, key, 8 * i, IBV_WC_SUCCESS);
        assert_int_equal(pair.server.memory[8 * i], 1 + i % 255);
        invalidate(key);
    }
}

/* A request before the invalidating message still uses the window; one after it is rejected. */
type_2(a_message_invalidates_a_window_of_its_receiver)
{
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    const uint32_t length = 2000;
    const size_t offset = begin + bytes;
    fill(pair.client.memory, length, 5);
    assert_int_equal(post_receive(&pair.server, 7, offset, length), 0);
    use(IBV_WR_RDMA_WRITE, key, begin, IBV_WC_SUCCESS);
    post_send_inv(key, length);
    const struct ibv_wc wc = next_completion(pair.server.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
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
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes));
    struct ibv_mr *other = ibv_reg_mr(pair.server.pd, pair.server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(other);
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
    const uint32_t key = bind_2(info_of(&pair.server, begin, bytes, reads_and_writes | IBV_ACCESS_ZERO_BASED));
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

/* Requests execute in order, whichever path they take. */
type_2(requests_and_windows_keep_their_order)
{
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

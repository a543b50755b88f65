/* SPDX-License-Identifier: BSD-3-Clause */
#include "windows.h"

#include <sys/mman.h>

struct pair pair;
struct ibv_mw *mw;

static void open_with(const struct options *options, enum ibv_mw_type type)
{
    open_pair(&pair, options);
    mw = ibv_alloc_mw(pair.server.pd, type);
    assert_non_null(mw);
    assert_int_equal(mw->type, type);
}

int open_type_1(void **state)
{
    open_with(&(struct options){.server_access = bindable}, IBV_MW_TYPE_1);
    return 0;
}

int open_type_2(void **state)
{
    open_with(
            &(struct options){.server_access = bindable, .send_ops = window_ops | IBV_QP_EX_WITH_SEND}, IBV_MW_TYPE_2);
    return 0;
}

int open_file(void **state)
{
    open_with(&(struct options){.server_access = bindable, .server_file = MAP_SHARED}, IBV_MW_TYPE_2);
    return 0;
}

int close_all(void **state)
{
    if (mw != NULL)
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_pair(&pair);
    return 0;
}

struct ibv_mw_bind_info info_of(struct side *s, size_t from, size_t length, unsigned access)
{
    return (struct ibv_mw_bind_info){
            .mr = s->mr, .addr = (uintptr_t)s->memory + from, .length = length, .mw_access_flags = access};
}

int post_bare(struct side *s, struct ibv_send_wr wr)
{
    wr.wr_id = 99;
    wr.send_flags |= IBV_SEND_SIGNALED;
    return post_wr(s, wr);
}

int post_bind(struct side *s, uint32_t key, struct ibv_mw_bind_info info)
{
    return post_bare(
            s, (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw, .rkey = key, .bind_info = info}});
}

void expect(struct ibv_cq *cq, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
    const struct ibv_wc wc = next_completion(cq);
    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, 99);
    if (status == IBV_WC_SUCCESS)
        assert_int_equal(wc.opcode, opcode);
}

uint32_t bind_2(struct ibv_mw_bind_info info)
{
    const uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind(&pair.server, key, info), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    mw->rkey = key;
    return key;
}

uint32_t bind_1(struct ibv_mw_bind_info info)
{
    struct ibv_mw_bind bind = {.wr_id = 99, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    assert_int_equal(ibv_bind_mw(pair.server.qp, mw, &bind), 0);
    expect(pair.server.cq, IBV_WC_BIND_MW, IBV_WC_SUCCESS);
    return mw->rkey;
}

void invalidate(uint32_t key)
{
    assert_int_equal(
            post_bare(&pair.server, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key}), 0);
    expect(pair.server.cq, IBV_WC_LOCAL_INV, IBV_WC_SUCCESS);
}

void use_from(struct side *client, enum ibv_wr_opcode opcode, uint32_t key, uint64_t addr, enum ibv_wc_status status)
{
    struct ibv_mr mr = {.rkey = key};
    const struct side target = {.memory = (uint8_t *)(uintptr_t)addr, .mr = &mr};
    assert_int_equal(post(client, opcode, 1, 0, 8, &target, 0, 0), 0);
    expect_completion(client->cq, 1, status);
}

void use(enum ibv_wr_opcode opcode, uint32_t key, size_t offset, enum ibv_wc_status status)
{
    use_from(&pair.client, opcode, key, (uintptr_t)pair.server.memory + offset, status);
}

void post_send_inv(uint32_t key, size_t length)
{
    struct ibv_sge sge = sge_of(&pair.client, 0, length);
    assert_int_equal(post_bare(&pair.client, (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV,
                                                     .invalidate_rkey = key,
                                                     .sg_list = &sge,
                                                     .num_sge = length > 0}),
            0);
}

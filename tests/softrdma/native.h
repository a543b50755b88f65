/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that headers before rdma-core 47 lack. */
#pragma once

#include "fixture.h"

enum {
    access_flush_global = 1 << 8,
    access_flush_persistent = 1 << 9,
    send_op_flush = 1 << 11,
    send_op_atomic_write = 1 << 12,
    wr_opcode_flush = 14,
    wr_opcode_atomic_write = 15,
    wc_opcode_flush = 8,
    wc_opcode_atomic_write = 9,
    flush_global = 1,
    flush_persistent = 2,
    flush_range = 0,
    flush_region = 1,
};

static const uint64_t device_flush_global = 1ULL << 38;
static const uint64_t device_flush_persistent = 1ULL << 39;
static const uint64_t device_atomic_write = 1ULL << 40;

typedef void (*wr_flush_function)(
        struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type, uint8_t level);

/* wr_flush follows the members of rdma-core 44, at its offset in rdma-core 47 and later. */
static inline wr_flush_function wr_flush_of(struct ibv_qp_ex *qp)
{
    wr_flush_function function;
    memcpy(&function, (const char *)qp + 352, sizeof(function));
    return function;
}

/* Posts a flush of a range in the memory of another side. */
static inline int post_flush(struct side *from, uint64_t wr_id, const struct side *to, size_t offset, size_t length,
        uint8_t type, uint8_t level)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(from->qp);
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    wr_flush_of(qp)(qp, to->mr->rkey, (uintptr_t)to->memory + offset, length, type, level);
    return ibv_wr_complete(qp);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that headers before rdma-core 47 lack. */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

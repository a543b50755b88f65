/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "fixture.h"

enum {
    bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, /* gives peers no access */
    reads_and_writes = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    begin = 1024, /* offset of most windows */
    bytes = 512,
    window_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV,
};

/* A connection, and a window that the server binds and the client uses. */
extern struct pair pair;
extern struct ibv_mw *mw;

/* Setup and teardown functions of the tests. */
int open_type_1(void **state);
int open_type_2(void **state);
int open_file(void **state); /* type 2 window to a file */
int close_all(void **state);
#define type_1(test) DEFINE_TEST(test, open_type_1, close_all)
#define type_2(test) DEFINE_TEST(test, open_type_2, close_all)

struct ibv_mw_bind_info info_of(struct side *s, size_t from, size_t length, unsigned access);
/* Posts a request without data. */
int post_bare(struct side *s, struct ibv_send_wr wr);
int post_bind(struct side *s, uint32_t key, struct ibv_mw_bind_info info);
/* Posts a SEND at the client that invalidates a window of the server. */
void post_send_inv(uint32_t key, size_t length);
/* Checks the next completion. */
void expect(struct ibv_cq *cq, enum ibv_wc_opcode opcode, enum ibv_wc_status status);

/* These functions return the key. The key of a type 2 window has the next variant. */
uint32_t bind_1(struct ibv_mw_bind_info info);
uint32_t bind_2(struct ibv_mw_bind_info info);
void invalidate(uint32_t key);

/* Posts a request of 8 bytes at the client. */
void use_from(struct side *client, enum ibv_wr_opcode opcode, uint32_t key, uint64_t addr, enum ibv_wc_status status);
void use(enum ibv_wr_opcode opcode, uint32_t key, size_t offset, enum ibv_wc_status status);

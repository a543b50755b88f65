// SPDX-License-Identifier: BSD-3-Clause
/* Steps that client and server share. `self` owns every object created here. Every wait has a deadline. */
#pragma once

#include "side.h"

/* All usages except persistence, which requires a file. */
#define USAGE_MEMORY                                                                                                   \
    (RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |             \
            RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)
#define USAGE_MESSAGES (RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV)

scope_release release_peer, release_mr, release_remote, release_cfg, release_ep, release_req, release_conn;

struct rpma_peer *make_peer(struct side *self);

struct region {
    char *ptr;
    size_t size;
    struct rpma_mr_local *mr;
};

/* Zeroed anonymous memory. */
struct region make_region(struct side *self, struct rpma_peer *peer, size_t size, int usage);

/* The first `size` bytes of a file, which is created if necessary. */
struct region map_region(struct side *self, struct rpma_peer *peer, const char *path, size_t size, int usage);

/*
 * Fills bytes with a pattern that depends on the seed and the offset; seed 0 means zeros. The peer may have written
 * them before a check: a message between the processes orders this, and ThreadSanitizer cannot see it.
 */
__attribute__((no_sanitize_thread)) void fill_pattern(void *ptr, size_t length, unsigned seed);
__attribute__((no_sanitize_thread)) void check_pattern(const void *ptr, size_t length, unsigned seed);

/* Sizes of queues; 0 means the default. */
struct queues {
    uint32_t cq;
    uint32_t sq;
    uint32_t rq;
};
struct rpma_conn_cfg *make_cfg(struct side *self, struct queues queues);

/* Listens at a free port, which it stores unless `port` is NULL, and reports to the test if this is a server. */
struct rpma_ep *make_ep(struct side *self, struct rpma_peer *peer, char port[8]);

struct rpma_conn_req *next_request(struct side *self, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg);
struct rpma_conn_req *new_request(
        struct side *self, struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg);

/* Consumes the request; pdata may be NULL. The connection is not yet established. */
struct rpma_conn *connect_request(
        struct side *self, struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata);

enum rpma_conn_event next_event(struct rpma_conn *conn);
void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected);

/* Expects one of the two events that end a connection. */
void expect_end(struct rpma_conn *conn);

struct rpma_cq *main_cq(const struct rpma_conn *conn);

/* Waits on the CQ's own channel. Must not be used for a CQ on a shared channel. */
struct ibv_wc next_completion(struct rpma_cq *cq);
struct ibv_wc expect_completion(struct rpma_cq *cq, enum ibv_wc_opcode opcode, const void *op_context);
struct ibv_wc expect_failure(struct rpma_cq *cq, enum ibv_wc_status status, const void *op_context);

/* Devices with native flush or atomic write report separate opcodes in completions. */
void expect_flush(struct rpma_cq *cq, const void *op_context);
void expect_atomic_write(struct rpma_cq *cq, const void *op_context);

/* Data that a server sends about itself while connecting: its peer configuration and up to eight regions. */
#define GREETING_REGIONS 8
#define DESCRIPTOR_SIZE 21
struct greeting {
    uint8_t peer_cfg;
    uint8_t count;
    uint8_t descriptors[GREETING_REGIONS][DESCRIPTOR_SIZE];
};
struct greeting make_greeting(const struct region *regions, size_t count, bool direct_write_to_pmem);

/* Accepts the next request with a greeting and waits until it is established. greeting may be NULL. */
struct rpma_conn *accept_next(
        struct side *self, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, const struct greeting *greeting);

/* Connects, waits until it is established and applies the peer configuration of the greeting. */
struct rpma_conn *connect_to(
        struct side *self, struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg);

const struct greeting *received_greeting(const struct rpma_conn *conn);
struct rpma_mr_remote *remote_region(struct side *self, const struct rpma_conn *conn, size_t index);

/* Makes a remote region from a descriptor. */
struct rpma_mr_remote *make_remote(struct side *self, const uint8_t descriptor[DESCRIPTOR_SIZE]);

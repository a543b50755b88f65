// SPDX-License-Identifier: BSD-3-Clause
/*
 * Common steps of the cases. A failing step fails the case. Objects are not released, because the process exits with
 * the case. Waits have no timeout; the time limit of the case applies.
 */
#pragma once

#include "address.h"
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define DESCRIPTOR_SIZE 21
#define MEMORY_SIZE 65536

/* All usages except persistence, which a device with native flush may reject for ordinary memory. */
#define USAGE_ALL                                                                                                      \
    (RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |             \
            RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV)

struct ibv_context *device(void);
struct ibv_device_attr_ex device_attributes(void);

/* Returns false on iWARP, where other limits of private data apply. */
bool has_infiniband_limits(void);

struct rpma_peer *new_peer(void);

struct region {
    char *ptr;
    size_t size;
    struct rpma_mr_local *mr;
};

/* Registers zeroed memory. */
struct region new_region(struct rpma_peer *peer, size_t size, int usage);
struct rpma_mr_remote *remote_of(struct region region);

/* Returns the descriptor of the region with some bits of one byte inverted. */
struct rpma_mr_remote *forged_remote_of(struct region region, size_t byte, int bits);

/* Fills memory with bytes that depend on the seed and their offset; seed 0 is all zeros. */
void fill(void *ptr, size_t length, unsigned seed);
void assert_filled(const void *ptr, size_t length, unsigned seed);

struct rpma_conn_cfg *new_cfg(void);
struct rpma_srq *new_srq(struct rpma_peer *peer, uint32_t rq_size, uint32_t rcq_size);

/* Picks a free TCP port. Another process may take it before it is used. */
void pick_port(char port[8]);

struct listener {
    struct rpma_peer *peer;
    struct rpma_ep *ep;
    char port[8];
};
struct listener listen_somewhere(struct rpma_peer *peer);

struct rpma_conn_req *new_request(struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg);
struct rpma_conn_req *next_request(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg);

/* Consumes the request. `pdata` may be NULL. The connection is not established yet. */
struct rpma_conn *connect_request(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata);

/* Sends a request of the listener's own peer, without configuration and private data. */
struct rpma_conn *call_listener(const struct listener *listener);

void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected);

/* Expects CLOSED or LOST: the device determines which one reports that the peer is gone. */
void expect_end(struct rpma_conn *conn);

struct rpma_cq *main_cq(const struct rpma_conn *conn);

/* Returns NULL if the connection has no receive CQ of its own. */
struct rpma_cq *receive_cq(const struct rpma_conn *conn);

/* Polls, so it also works with CQs on shared channels and CQs of SRQs. */
struct ibv_wc next_completion(struct rpma_cq *cq);
struct ibv_wc expect_success(struct rpma_cq *cq, enum ibv_wc_opcode opcode, const void *op_context);
struct ibv_wc expect_failure(struct rpma_cq *cq, enum ibv_wc_status status, const void *op_context);

/* With native flush or atomic write, these completions have different opcodes. */
void expect_flushed(struct rpma_cq *cq, const void *op_context);
void expect_atomically_written(struct rpma_cq *cq, const void *op_context);

int event_fd(const struct rpma_conn *conn);
int cq_fd(const struct rpma_cq *cq);
int ep_fd(const struct rpma_ep *ep);
void make_nonblocking(int fd);

/* Waits until the descriptor is readable, or checks that it is not. */
void await_readable(int fd);
void assert_not_readable(int fd);

struct side {
    struct rpma_conn *conn;
    struct rpma_cq *cq;
    struct region memory;
    struct rpma_mr_remote *remote; /* memory of the peer */
};

/* Both ends of an established connection in this process. */
struct pair {
    struct rpma_peer *peer;
    struct listener listener;
    struct side client;
    struct side server;
};

/* Like connect_pair(), with configurations, which may be NULL. `peer` must be the peer of the configurations. */
struct pair connect_pair_with(
        struct rpma_peer *peer, const struct rpma_conn_cfg *client, const struct rpma_conn_cfg *server);
struct pair connect_pair(void);

/* Opens another connection through the endpoint of the pair; each side uses the memory of the pair. */
struct pair connect_again(const struct pair *pair);

/* Disconnects the client and waits for both events. */
void disconnect(struct pair *pair);

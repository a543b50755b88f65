/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_FIXTURE_H
#define SOFTRDMA_FIXTURE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

enum {
    everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    time_limit_ms = 60000, /* after which something that must happen has not happened */
    no_gid = -1,
};

/* One end of a connection with its queues and one registered buffer. */
struct side {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;
    size_t size;
    bool mapped;   /* memory was given by the test */
    bool borrowed; /* domain, region and memory are another side's */
};

struct options {
    const char *address; /* default 127.0.0.1 */
    size_t size;         /* default 4096 */
    unsigned depth;      /* depth of the send and receive queue, default 16 */
    int server_access;   /* default everything */
    void *server_memory; /* default malloc'd */
    uint8_t rnr_retry;   /* RNR retry count that both sides request, default 7 */
    bool server_srq;
    bool srq_apart;             /* the shared receive queue is in a domain of its own */
    unsigned server_recv_depth; /* default depth */
    uint64_t send_ops;          /* operations of the client's ibv_wr_* interface, default none */
    const struct side *lender;  /* both sides use its domain, region and memory; default their own */
};

/* A connected pair in this process. */
struct pair {
    struct rdma_event_channel *listen_channel;
    struct rdma_cm_id *listener;
    struct ibv_srq *srq;   /* the server's */
    struct ibv_pd *srq_pd; /* its domain, if that is not the server's */
    struct side client;
    struct side server;
};

void open_pair(struct pair *pair, const struct options *options);
void close_pair(struct pair *pair);

/* The single steps. */
void open_listener(struct pair *pair, const char *address);
void resolve_client(struct pair *pair, const struct options *options);
void create_queues(struct side *side, struct ibv_srq *srq, const struct options *options, bool server);
void connect_client(struct pair *pair, const struct rdma_conn_param *param);
struct rdma_cm_event *take_request(struct pair *pair);
void close_side(struct side *side);

/* Waits for a child that exits on its own. */
int exit_code_of(pid_t child);

/* Takes the next event, which has to be of that type; the caller acknowledges it. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Like next_event(), but acknowledges the event and returns its status. */
int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Expects no event within a short time. */
void expect_no_event(struct rdma_event_channel *channel);

struct ibv_wc next_completion(struct ibv_cq *cq);
void expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/* The open device of a group of tests that uses no connection manager, which these two open and close. */
extern struct ibv_context *device;
int open_the_device(void **state);
int close_the_device(void **state);
/* The index of that GID, or no_gid. */
int gid_index_of(const char *text);

/* Signalled operations of one element inside the sides' buffers. */
int post(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, size_t length,
        const struct side *to, size_t to_offset, unsigned flags);
int post_receive(struct side *side, uint64_t wr_id, size_t offset, size_t length);
/* To a shared queue, of memory that this side has registered. */
int post_shared_receive(struct ibv_srq *srq, const struct side *side, uint64_t wr_id, size_t offset, size_t length);

/* With every right of access. */
void to_init(struct ibv_qp *qp);
void to_reset(struct ibv_qp *qp);
/* The transitions of a connected queue pair, with the attributes that each requires. Return the result of
 * ibv_modify_qp(), and store the new state in attr->qp_state. */
int modify_to_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr);
int modify_to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr);

void fill(uint8_t *memory, size_t length, unsigned seed);

/* A file without a name, mapped with these flags; the caller unmaps it and closes *fd, which may be left out. */
void *map_file(size_t size, int flags, int *fd);

/* A queue pair that asks for these operations of the new post interface is refused with EOPNOTSUPP. */
void expect_no_send_ops(struct side *side, uint64_t ops);

#endif

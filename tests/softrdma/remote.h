/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_REMOTE_H
#define SOFTRDMA_REMOTE_H

#include "fixture.h"

#include <sys/types.h>

/* Actions of a server process. Its memory is shared with its parent. */
struct server_plan {
    void (*prepare)(void);          /* before any verbs call, may be NULL */
    size_t size;                    /* memory of each side, default one page */
    int access;                     /* to the server's, default everything */
    uint64_t send_ops;              /* operations of the client's ibv_wr_* interface, default none */
    unsigned receives;              /* posted before it accepts, 64 bytes each */
    unsigned shared_receives;       /* posted to a shared receive queue, which the queue pair uses then */
    size_t shared_size;             /* size of each shared receive, default 64 bytes */
    void (*act)(struct pair *pair); /* called once connected; if NULL, the server waits forever */
};

enum {
    no_ack_timeout = 255
};

/* A server process and this process' connection to it. */
struct remote {
    pid_t pid;
    int in;
    uint8_t *page;
    size_t size;
    uint64_t send_ops;
    uint8_t ack_timeout; /* RDMA_OPTION_ID_ACK_TIMEOUT of the client, default not set */
    struct pair pair;    /* only the client side is used */
    struct side target;
    struct ibv_mr mr;
};

/* Call before any verbs call of this process. `page` is NULL or shared memory. */
void start_server(struct remote *r, const struct server_plan *plan, uint8_t *page);
void meet_server(struct remote *r);
/* The part of it that connects, to any server of this host: `port` is in network order. */
void call_server(struct remote *r, uint16_t port);
/* Stops its threads, so that only operations that this process executes alone can succeed. */
void suspend_server(struct remote *r);
/* Kills it and closes this side. */
void stop_server(struct remote *r);

/* Runs a test in a process of its own, so that its fork comes before any verbs call. */
void in_own_process(void (*test)(void));

#endif

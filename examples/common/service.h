// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_SERVICE_H
#define EXAMPLES_SERVICE_H 1

#include <stdbool.h>
#include <stdint.h>

#include <librpma.h>

#include "arguments.h"
#include "event_loop.h"

/* A single-threaded server of many clients: code shared by 06 and 13. */

enum {
    MAX_CLIENTS = 10
};

struct client {
    struct service *service;
    int slot;               /* 0 to MAX_CLIENTS - 1, reserved while it is connected */
    struct rpma_conn *conn; /* NULL if the slot is free */
    bool is_established;
    bool is_done;
    bool is_sending; /* free for the handlers */
    struct watch events;
    struct watch completions; /* used by the handlers; unwatched at the end of the connection if its fd is not -1 */
};

/* If a handler fails, the client is disconnected, and service_run() finally returns a failure. */
struct service_handlers {
    /* Called before the client is accepted, for example to post a receive for its first message. May be NULL. */
    int (*requested)(struct client *client, struct rpma_conn_req *req);
    int (*established)(struct client *client); /* called when the connection is established */
    int (*completed)(struct client *client);   /* value of completions.handle; not watched if NULL */
};

struct service {
    const struct arguments *args;
    struct rpma_peer *peer;
    const struct rpma_conn_cfg *cfg; /* configuration of every connection; NULL means the defaults */
    const struct service_handlers *handlers;
    void *context; /* context of the handlers */
    int listen_s;  /* maximum wait for another client; 0 means no limit */

    /* Private members of the service. */
    struct event_loop loop; /* epoll_fd is -1 before service_open */
    struct rpma_ep *ep;
    struct watch requests;
    int64_t listen_until_ms;
    struct client clients[MAX_CLIENTS];
    int accepted_count;  /* clients accepted so far */
    int connected_count; /* clients connected now */
    int status;
};

/* Open and close the service. Between the two calls, the loop accepts watches of the caller. Return a status. */
int service_open(struct service *service);
int service_close(struct service *service);

/*
 * Serves clients until none has connected for listen_s seconds, or until the requested number has connected, and
 * returns when all have disconnected. Rejects clients beyond MAX_CLIENTS. Returns a failure if no client connected, or
 * if one was lost before it finished.
 */
int service_run(struct service *service);

/* Disconnects a client that has finished. Returns a status. */
int service_dismiss(struct client *client);

/* Disconnects a client that failed. */
void service_give_up(struct client *client);

#endif /* EXAMPLES_SERVICE_H */

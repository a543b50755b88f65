// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_SERVICE_H
#define EXAMPLES_SERVICE_H 1

#include <stdbool.h>
#include <stdint.h>

#include <librpma.h>

#include "arguments.h"
#include "event_loop.h"

/* Server of many clients at a time, in one thread: shared code of 06 and 13. */

enum {
    MAX_CLIENTS = 10
};

struct client {
    struct service *service;
    int slot;               /* 0 to MAX_CLIENTS - 1, reserved while it is connected */
    struct rpma_conn *conn; /* NULL if the slot is free */
    bool is_established;
    bool is_done;
    bool is_sending; /* at the disposal of the handlers */
    struct watch events;
    struct watch completions; /* at the disposal of the handlers; unwatched when the client goes, if its fd is not -1 */
};

/* If a handler returns another value than STATUS_OK, the client is disconnected and the server fails in the end. */
struct service_handlers {
    /* Called before the client is accepted, for example to post a receive for its first message. May be NULL. */
    int (*requested)(struct client *client, struct rpma_conn_req *req);
    int (*established)(struct client *client); /* the connection is established: operations may be posted */
    int (*completed)(struct client *client);   /* function for completions.handle; NULL if not watched */
};

struct service {
    const struct arguments *args;
    struct rpma_peer *peer;
    const struct rpma_conn_cfg *cfg; /* configuration of every connection; NULL means the defaults */
    const struct service_handlers *handlers;
    void *context; /* context of the handlers */
    int listen_s;  /* maximum wait for another client; 0 means no limit */

    /* The following members belong to the service. */
    struct event_loop loop; /* epoll_fd is -1 before service_open */
    struct rpma_ep *ep;
    struct watch requests;
    int64_t listen_until_ms;
    struct client clients[MAX_CLIENTS];
    int accepted_count;  /* clients accepted so far */
    int connected_count; /* clients connected now */
    int status;
};

/* Opens the service, after which the loop takes the caller's own watches, and closes it. Return a status. */
int service_open(struct service *service);
int service_close(struct service *service);

/*
 * Listens until no client has connected for listen_s seconds, or until the number of clients of the command line has
 * connected, and returns when all of them have disconnected. A client beyond MAX_CLIENTS is rejected. Returns
 * a status: failure if no client came, or if one of them was lost before it was done.
 */
int service_run(struct service *service);

/* Disconnects a client that is done. Returns a status. */
int service_dismiss(struct client *client);

/* Disconnects a client that failed. */
void service_give_up(struct client *client);

#endif /* EXAMPLES_SERVICE_H */

// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_CONNECTION_H
#define EXAMPLES_CONNECTION_H 1

#include <librpma.h>

#include "arguments.h"

/*
 * Common steps of clients and servers. All functions return a status (status.h), and fail if the peer does not respond
 * within args->timeout_s seconds. The caller must delete a handle that is not NULL afterwards, also after a failure. A
 * NULL cfg means the defaults of librpma.
 */

/* Opens the device for args->addr: a local address for a server, a remote one for a client. */
int open_peer(const struct arguments *args, enum rpma_util_ibv_context_type side, struct rpma_peer **peer);

/* Listens, and reports it on stderr and on args->ready_fd. */
int listen_for_clients(const struct arguments *args, struct rpma_peer *peer, struct rpma_ep **ep);

/* Waits for a client's request. The caller must connect or delete it. */
int take_request(
        const struct arguments *args, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req);

/* Waits until a connection started by rpma_conn_req_connect is established, or has failed. */
int wait_until_established(const struct arguments *args, struct rpma_conn *conn);

/*
 * Called by a server for a request before accepting it, for example to check its private data. A status other than
 * STATUS_OK rejects the client.
 */
typedef int inspect_request(struct rpma_conn_req *req, void *context);

/*
 * Listens, waits for one client, calls `inspect` (unless NULL) for its request, accepts it with `pdata` (may be NULL),
 * and waits until the connection is established.
 */
int accept_one_client(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, inspect_request *inspect, void *context, struct rpma_conn **conn);

/* Connects with `pdata` (may be NULL), and waits until the server has accepted. */
int connect_to_server(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/* Ends a connection: disconnect() on the side that finishes first, wait_for_disconnect() on the other side. */
int disconnect(const struct arguments *args, struct rpma_conn *conn);
int wait_for_disconnect(const struct arguments *args, struct rpma_conn *conn);

#endif /* EXAMPLES_CONNECTION_H */

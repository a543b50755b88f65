// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_CONNECTION_H
#define EXAMPLES_CONNECTION_H 1

#include <librpma.h>

#include "arguments.h"

/*
 * The steps that every client and server takes around its data transfer. All of them return a status (status.h), and
 * give up after args->timeout_s seconds without a sign of the peer. A handle that is not NULL afterwards is the
 * caller's to delete, whatever the status. A NULL cfg means the defaults of librpma.
 */

/* Finds the device for args->addr, which is a local address for a server and a remote one for a client. */
int open_peer(const struct arguments *args, enum rpma_util_ibv_context_type side, struct rpma_peer **peer);

/* Listens, and reports this on stderr and on args->ready_fd. */
int listen_for_clients(const struct arguments *args, struct rpma_peer *peer, struct rpma_ep **ep);

/* Waits for a client's request, which is the caller's to connect or delete. */
int take_request(
        const struct arguments *args, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req);

/* Waits for the end of the connecting that rpma_conn_req_connect begins. */
int wait_until_established(const struct arguments *args, struct rpma_conn *conn);

/*
 * Function that a server calls for a request before accepting it, for example to check its private data.
 * A status other than STATUS_OK rejects the client.
 */
typedef int inspect_request(struct rpma_conn_req *req, void *context);

/*
 * Like listen_for_clients, but waits for one client, calls inspect (unless it is NULL) for its request, accepts it with
 * pdata, which may be NULL, and waits until the connection is established.
 */
int accept_one_client(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, inspect_request *inspect, void *context, struct rpma_conn **conn);

/* Connects with pdata, which may be NULL, and waits until the server has accepted. */
int connect_to_server(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, struct rpma_conn **conn);

/* The two ends of a disconnection: the side that is done starts it, the other one waits for it and answers. */
int disconnect(const struct arguments *args, struct rpma_conn *conn);
int wait_for_disconnect(const struct arguments *args, struct rpma_conn *conn);

#endif /* EXAMPLES_CONNECTION_H */

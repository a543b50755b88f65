// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_REQUESTS_H
#define RPMA_FIO_REQUESTS_H 1

#include "client.h"

/* Operations of message-based clients, for struct client_kind with `write_request`. They own the client's kind_data. */
int requests_configure(const struct client *client, struct rpma_conn_cfg *cfg);
int requests_flush(struct client *client, uint64_t offset, uint64_t length, uint64_t number);
int requests_take_message(struct client *client, const struct ibv_wc *wc);
void requests_shut_down(struct thread_data *td, struct client *client);
void requests_end(struct client *client);

/* Reserves entries for each request that the client can post; the server must accept that number. */
int requests_begin(struct thread_data *td, struct client *client);

#endif /* RPMA_FIO_REQUESTS_H */

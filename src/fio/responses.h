// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_RESPONSES_H
#define RPMA_FIO_RESPONSES_H 1

#include "server.h"

/*
 * Functions of struct server_kind for servers that execute requests of their client; `act` must be set. They own the
 * server's kind_data.
 */
unsigned int responses_max_messages(const struct thread_data *td);
int responses_configure(const struct server *server, struct rpma_conn_cfg *cfg);
int responses_on_connect(struct thread_data *td, struct server *server, struct rpma_conn_req *request);
int responses_serve(struct thread_data *td, struct server *server);
void responses_end(struct server *server);

#endif /* RPMA_FIO_RESPONSES_H */

// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_RESPONSES_H
#define RPMA_FIO_RESPONSES_H 1

#include "server.h"

/* Operations of servers that execute requests, for struct server_kind with `act`. They own kind_data of the server. */
unsigned int responses_max_messages(const struct thread_data *td);
int responses_configure(const struct server *server, struct rpma_conn_cfg *cfg);
int responses_on_connect(struct thread_data *td, struct server *server, struct rpma_conn_req *request);
int responses_serve(struct thread_data *td, struct server *server);
void responses_end(struct server *server);

#endif /* RPMA_FIO_RESPONSES_H */

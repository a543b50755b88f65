// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_ANSWERS_H
#define RPMA_FIO_ANSWERS_H 1

#include "server.h"

/*
 * For servers that do what their client asks by message: the functions of struct server_kind, which has act then. They
 * own a server's kind_data.
 */
unsigned int answers_max_messages(const struct thread_data *td);
int answers_configure(const struct server *server, struct rpma_conn_cfg *cfg);
int answers_welcome(struct thread_data *td, struct server *server, struct rpma_conn_req *request);
int answers_serve(struct thread_data *td, struct server *server);
void answers_end(struct server *server);

#endif /* RPMA_FIO_ANSWERS_H */

// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_REMOTE_FLUSH_H
#define RPMA_FIO_REMOTE_FLUSH_H 1

#include "client.h"

/* Prepares the connection for flushes to persistence, if the workspace is PMem. If its server does not declare direct
 * write, and the job writes, it fails and recommends the engine `instead`. */
int remote_flush_begin(struct thread_data *td, struct client *client, const char *instead);

/* Posts a flush, to persistence if the workspace permits it. Returns an error of librpma. */
int remote_flush(const struct client *client, uint64_t offset, uint64_t length, int flags, uint64_t number);

#endif /* RPMA_FIO_REMOTE_FLUSH_H */

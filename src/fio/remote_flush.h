// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_REMOTE_FLUSH_H
#define RPMA_FIO_REMOTE_FLUSH_H 1

#include "client.h"

/* For clients that flush without the server's CPU. */

/*
 * Prepares the connection for flushes to persistence, if the workspace is PMem. If its server does not promise that it
 * is written directly, and the job writes, instead is what the user is told to use.
 */
int remote_flush_begin(struct thread_data *td, struct client *client, const char *instead);

/* Posts a flush as far as the workspace allows. Returns an error of librpma. */
int remote_flush(const struct client *client, uint64_t offset, uint64_t length, int flags, uint64_t number);

#endif /* RPMA_FIO_REMOTE_FLUSH_H */

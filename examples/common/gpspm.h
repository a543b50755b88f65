// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_GPSPM_H
#define EXAMPLES_GPSPM_H 1

#include <stdint.h>

#include <librpma.h>

#include "arguments.h"
#include "mailbox.h"
#include "memory.h"

/*
 * The General Purpose Server Persistency Method of 09 and 09scch: the client writes, then asks the server by message to
 * persist what was written. Messages are those of GPSPM_flush.proto.
 */
enum {
    GPSPM_SLOT_SIZE = 512, /* for one message */
    GPSPM_RCQ_SIZE = 1
};

/* One side of the whole example, from its text to the end of the connection. Return a status. */
int gpspm_write(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg);
int gpspm_serve(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg);

/*
 * Persists what the request in the mailbox asks for, and fills in the response. A request that is none, or for bytes
 * beyond memory, changes nothing and fails. Returns a status; *response_size is that of the response.
 */
int gpspm_persist(const struct memory *memory, const struct mailbox *mailbox, size_t *response_size);

/* Fills in a request and returns its size. */
size_t gpspm_request(const struct mailbox *mailbox, uint64_t offset, uint64_t length);

/* Whether the response in the mailbox answers the request made last. Returns a status. */
int gpspm_check_response(const struct mailbox *mailbox);

#endif /* EXAMPLES_GPSPM_H */

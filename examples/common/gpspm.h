// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_GPSPM_H
#define EXAMPLES_GPSPM_H 1

#include <stdint.h>

#include <librpma.h>

#include "mailbox.h"
#include "memory.h"
#include "variant.h"

/*
 * General Purpose Server Persistency Method of 09 and 09scch: the client writes, then sends the server a request to
 * persist the data. GPSPM_flush.proto defines the messages.
 */
enum {
    GPSPM_SLOT_SIZE = 512 /* maximum size of a message */
};

/* Main functions of the programs, with the configuration of their connections. Return an exit status. */
int gpspm_client(int argc, char **argv, configure_conn *configure);
int gpspm_server(int argc, char **argv, configure_conn *configure);

/*
 * Persists the range in the request and fills in the response. Rejects a malformed request, and a range beyond memory.
 * Returns a status; *response_size is the size of the response.
 */
int gpspm_persist(const struct memory *memory, const struct mailbox *mailbox, size_t *response_size);

/* Fills in a request and returns its size. */
size_t gpspm_request(const struct mailbox *mailbox, uint64_t offset, uint64_t length);

/* Checks that the response in the mailbox belongs to the last request. Returns a status. */
int gpspm_check_response(const struct mailbox *mailbox);

#endif /* EXAMPLES_GPSPM_H */

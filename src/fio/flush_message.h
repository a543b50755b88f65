// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_FLUSH_MESSAGE_H
#define RPMA_FIO_FLUSH_MESSAGE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The messages of GPSPM_flush.proto. A slot of one pair has room for the outgoing and then for the incoming one. */
enum {
    MESSAGE_SIZE = 512,
    SLOT_SIZE = 2 * MESSAGE_SIZE
};

struct flush_request {
    uint64_t offset; /* from the start of the server's workspace */
    uint64_t length; /* 0 at offset 0: the client is done and expects no answer */
    uint64_t context;
};

/* Fill in a message of MESSAGE_SIZE bytes. Return its length. */
size_t flush_request_write(const struct flush_request *request, void *message);
size_t flush_response_write(uint64_t context, void *message);

/* Return whether the message is one of the kind. */
bool flush_request_read(const void *message, size_t length, struct flush_request *request);
bool flush_response_read(const void *message, size_t length, uint64_t *context);

#endif /* RPMA_FIO_FLUSH_MESSAGE_H */

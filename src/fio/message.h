// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_MESSAGE_H
#define RPMA_FIO_MESSAGE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages between client and server. A slot of one pair contains the outgoing message, then the incoming one. */
enum {
    MESSAGE_SIZE = 512,
    SLOT_SIZE = 2 * MESSAGE_SIZE
};

/* The response to any request contains the context of the request. Returns the length of the message. */
size_t response_write(uint64_t context, void *message);

bool response_read(const void *message, size_t length, uint64_t *context);

#endif /* RPMA_FIO_MESSAGE_H */

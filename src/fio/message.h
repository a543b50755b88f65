// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_MESSAGE_H
#define RPMA_FIO_MESSAGE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages between client and server. A slot of one pair contains the outgoing message, followed by the incoming one.
 */
enum {
    MESSAGE_SIZE = 512,
    SLOT_SIZE = 2 * MESSAGE_SIZE
};

/* The response to a request of any kind contains the context of the request. Fills in a message of MESSAGE_SIZE bytes,
   returns its length. */
size_t response_write(uint64_t context, void *message);

/* Returns whether the message is a response. */
bool response_read(const void *message, size_t length, uint64_t *context);

#endif /* RPMA_FIO_MESSAGE_H */

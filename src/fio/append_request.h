// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_APPEND_REQUEST_H
#define RPMA_FIO_APPEND_REQUEST_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The workspace of an append-only file ends with the pointer: the number of valid bytes from its start. */
enum {
    POINTER_SIZE = sizeof(uint64_t)
};

/* The request of AOF_update.proto. All zero: the client is done and expects no response. */
struct append_request {
    uint64_t offset; /* offset of the appended range from the start of the server's workspace */
    uint64_t length;
    uint64_t pointer_offset;
    uint64_t context;
};

size_t append_request_write(const struct append_request *request, void *message);

bool append_request_read(const void *message, size_t length, struct append_request *request);

#endif /* RPMA_FIO_APPEND_REQUEST_H */

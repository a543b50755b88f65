// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_FLUSH_REQUEST_H
#define RPMA_FIO_FLUSH_REQUEST_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The request of GPSPM_flush.proto. */
struct flush_request {
    uint64_t offset; /* from the start of the server's workspace */
    uint64_t length; /* 0 at offset 0: the client is done and expects no response */
    uint64_t context;
};

size_t flush_request_write(const struct flush_request *request, void *message);

bool flush_request_read(const void *message, size_t length, struct flush_request *request);

#endif /* RPMA_FIO_FLUSH_REQUEST_H */

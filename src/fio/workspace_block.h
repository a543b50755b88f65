// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_WORKSPACE_BLOCK_H
#define RPMA_FIO_WORKSPACE_BLOCK_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Description of the server's workspace, sent when it accepts the client, in the byte order of the host. Part of the
 * protocol of fio 3.27 to 3.37: the layout never changes. */
enum {
    MAX_DESCRIPTOR_SIZE = 24
};

struct workspace_block {
    uint16_t max_messages;        /* maximum outstanding requests; 0 for an APM server */
    uint8_t direct_write_to_pmem; /* 0 or 1 */
    uint8_t descriptor_size;
    uint8_t descriptor[MAX_DESCRIPTOR_SIZE]; /* descriptor of the memory region, padded with zeros */
};

_Static_assert(sizeof(struct workspace_block) == 28, "the block is sent as it is");

/* Returns whether the private data of a connection is such a block; longer data is padding of the transport. */
bool workspace_block_read(const void *data, size_t size, struct workspace_block *block);

#endif /* RPMA_FIO_WORKSPACE_BLOCK_H */

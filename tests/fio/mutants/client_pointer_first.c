// SPDX-License-Identifier: BSD-3-Clause
/* mode=hw, wrong: the appended data is flushed only after the pointer to its end. */
#include "client.h"
#include "remote_flush.h"

static int flush_later(const struct client *client, uint64_t offset, uint64_t length, int flags, uint64_t number)
{
    static uint64_t data_offset;
    static uint64_t data_length;
    if (flags == RPMA_F_COMPLETION_ON_ERROR) {
        data_offset = offset;
        data_length = length;
        return 0;
    }
    const int ret = remote_flush(client, offset, length, RPMA_F_COMPLETION_ON_ERROR, number);
    return ret ? ret : remote_flush(client, data_offset, data_length, flags, number);
}

#define remote_flush flush_later
#include "aof_client.c"

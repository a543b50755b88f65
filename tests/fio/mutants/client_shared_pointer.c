// SPDX-License-Identifier: BSD-3-Clause
/*
 * mode=hw, wrong: the pointers of all appends in flight are written from one buffer, which is read when the write is
 * executed and not when it is posted.
 */
#include "client.h"

static int write_shared(
        const struct client *client, uint64_t offset, const char *pointer, int flags, const void *context)
{
    static uint64_t buffer;
    static struct rpma_mr_local *mr;
    if (!mr && rpma_mr_reg(client->session.peer, &buffer, sizeof(buffer), RPMA_MR_USAGE_WRITE_SRC, &mr) != 0)
        return RPMA_E_PROVIDER;
    memcpy(&buffer, pointer, sizeof(buffer));
    return rpma_write(client->session.conn, client->workspace, offset, mr, 0, sizeof(buffer), flags, context);
}

#define rpma_atomic_write(conn, workspace, ...) write_shared(client, __VA_ARGS__)
#include "aof_client.c"

// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "memory.h"
#include "region.h"
#include "status.h"
#include "text.h"

enum {
    MAX_TEXT_SIZE = 1024
};

static const char read_name[] = "rpma_read";

static const struct program program = {
        .purpose = "Reads a greeting from the server's memory into its own.",
        .operands = "",
        .operands_help = "",
        .timeout_s = 30,
};

static int read_greeting(const struct arguments *args, struct rpma_conn *conn, struct rpma_mr_local *dst,
        const struct rpma_mr_remote *src, size_t *size)
{
    int status = check("rpma_mr_remote_get_size", rpma_mr_remote_get_size(src, size));
    if (status == STATUS_OK && *size > MAX_TEXT_SIZE) {
        warnx("the server offers %zu bytes, this client has room for %d: it runs another example", *size,
                MAX_TEXT_SIZE);
        return STATUS_FAILED;
    }
    if (status == STATUS_OK)
        status = check(read_name, rpma_read(conn, dst, 0, src, 0, *size, RPMA_F_COMPLETION_ALWAYS, read_name));
    return status ? status : wait_for_completion(args, conn, read_name);
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct rpma_mr_remote *src = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data pdata = {0};
    size_t src_offset = 0;
    size_t size = 0;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&memory, MAX_TEXT_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_READ_DST, &dst);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, 1, &src, &src_offset, NULL);
    if (status == STATUS_OK)
        status = read_greeting(&args, conn, dst, src, &size);
    if (status == STATUS_OK)
        status = print_text("Read a message", memory.base, size);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src));
    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}

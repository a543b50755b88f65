// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <stdbool.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "hello.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const struct program program = {
        .purpose = "Lets one client write a text to this server's persistent memory and flush it.",
        .operands = "[<pmem-path> [on|off]]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP
        "  on|off           whether what a client writes to <pmem-path> is persistent once it is visible: direct write "
        "to\n"
        "                   PMem on hardware, always on softrdma; off (default): this server persists it at the end\n",
        .max_operands = HELLO_SERVER_MAX_OPERANDS + 1,
        .retry_s = RETRY_NOT_OFFERED,
};

static bool parse_direct_write(const struct arguments *args)
{
    const char *word = arguments_operand(args, 1);
    if (!word || strcmp(word, "off") == 0)
        return false;
    if (strcmp(word, "on") != 0)
        usage_error("direct write to PMem is either on or off, not '%s'", word);
    return true;
}

static int describe(
        bool direct_write, const struct rpma_mr_local *mr, const struct memory *memory, struct handshake *handshake)
{
    struct rpma_peer_cfg *pcfg = NULL;
    int status = check("rpma_peer_cfg_new", rpma_peer_cfg_new(&pcfg));
    if (status == STATUS_OK)
        status = check(
                "rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, direct_write));
    if (status == STATUS_OK)
        status = handshake_make(handshake, mr, memory->data_offset, pcfg);

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    return status;
}

static int usage_of(const struct memory *memory)
{
    const int usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    return memory->map ? usage | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : usage;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const bool direct_write = parse_direct_write(&args);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = hello_open_area(&args, &memory);
    if (status == STATUS_OK && direct_write && !memory.is_persistent)
        warnx("WARNING: on an ordinary file `on` holds only for a device that makes files durable, as softrdma does");
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, usage_of(&memory), &mr);
    if (status == STATUS_OK)
        status = describe(direct_write, mr, &memory, &handshake);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);
    if (status == STATUS_OK && !direct_write)
        memory_persist(&memory, HELLO_TEXT_SIZE);
    if (status == STATUS_OK)
        status = hello_print_area(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}

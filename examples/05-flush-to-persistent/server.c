// SPDX-License-Identifier: BSD-3-Clause
/*
 * Lets one client write a text to this server's persistent memory and flush it.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

/* Offers memory to one client. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int offer_memory(const struct arguments *args, bool direct_write)
{
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_peer_cfg *pcfg = NULL;
    size_t pcfg_size = 0;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);
    size_t mr_size = 0;
    uint8_t *descriptors = handshake.bytes + HANDSHAKE_DESCRIPTORS_OFFSET;
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

    int status = open_peer(args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer); /* rpma_peer_new: see example 01 */
    status = status ? status : hello_open_area(args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size,
                rpma_mr_reg(peer, memory.base, memory.size, direct_write_usage(&memory, direct_write), &mr));

    /* Private data for the client: descriptors of the region and of the guarantee, and the offset of the text. */
    status = status ? status : check("rpma_peer_cfg_new", rpma_peer_cfg_new(&pcfg));
    if (status == STATUS_OK)
        status = check(
                "rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, direct_write));
    status = status ? status : check("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size(mr, &mr_size));
    if (status == STATUS_OK)
        status = check("rpma_peer_cfg_get_descriptor_size", rpma_peer_cfg_get_descriptor_size(pcfg, &pcfg_size));
    status = status ? status : handshake_begin(&handshake, memory.data_offset, mr_size, pcfg_size);
    status = status ? status : check("rpma_mr_get_descriptor", rpma_mr_get_descriptor(mr, descriptors));
    if (status == STATUS_OK)
        status = check("rpma_peer_cfg_get_descriptor", rpma_peer_cfg_get_descriptor(pcfg, descriptors + mr_size));

    status = status ? status : explain_listening(args, rpma_ep_listen(peer, args->addr, args->port, &ep));
    status = status ? status : wait_for_request(args, ep);
    status = status ? status : check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
    status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, &conn));
    status = status ? status : wait_for_event(args, conn);
    status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    status = status ? status : check_event(event, RPMA_CONN_ESTABLISHED);
    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req)); /* rejects a request that is not accepted */
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));          /* serves only one client */

    /* The client writes and flushes without this program, and disconnects. */
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    if (status == STATUS_OK && !direct_write)
        memory_persist(&memory, HELLO_TEXT_SIZE);
    status = status ? status : hello_print_area(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}

static const struct program program = {
        .purpose = "Lets one client write a text to this server's persistent memory and flush it.",
        .operands = "[<pmem-path> [on|off]]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP DIRECT_WRITE_HELP,
        .max_operands = HELLO_SERVER_MAX_OPERANDS + 1,
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return offer_memory(&args, direct_write_parse(&args, 1));
}

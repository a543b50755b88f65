// SPDX-License-Identifier: BSD-3-Clause
/*
 * A peer of the engines that breaks their protocol.
 *
 * invalid_peer client ADDRESS PORT HEX   connects, sends the bytes as a message and waits until the server disconnects
 * invalid_peer server ADDRESS PORT HEX [HEX]   accepts one client, with the bytes as private data ("": none). A leading
 *     {region} stands for a block that describes one page. Responds to each message with the second bytes.
 */
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

enum {
    PAGE = 4096,
    MESSAGES = PAGE, /* offset in the memory: received messages follow the page that peers write to */
    MESSAGE_SIZE = 512,
    BLOCK_SIZE = 28,
    DEADLINE_MS = 20000
};

static _Alignas(PAGE) uint8_t memory[2 * PAGE];

static void must(const char *what, int ret)
{
    if (ret)
        errx(EXIT_FAILURE, "%s: %s", what, rpma_err_2str(ret));
}

static size_t parse(const char *hex, uint8_t *bytes, size_t capacity)
{
    const size_t size = strlen(hex) / 2;
    if (size > capacity)
        errx(EXIT_FAILURE, "%zu bytes are too many", size);
    for (size_t i = 0; i < size; ++i) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return size;
}

static enum rpma_conn_event next_event(struct rpma_conn *conn)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    struct pollfd waiting = {.events = POLLIN};
    must("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &waiting.fd));
    if (poll(&waiting, 1, DEADLINE_MS) != 1)
        errx(EXIT_FAILURE, "the other side does nothing");
    must("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    return event;
}

static void act_as_client(
        struct rpma_peer *peer, struct rpma_mr_local *mr, const char *address, const char *port, const char *hex)
{
    struct rpma_conn_req *request = NULL;
    struct rpma_conn *conn = NULL;
    const size_t size = parse(hex, memory, MESSAGE_SIZE);
    must("rpma_conn_req_new", rpma_conn_req_new(peer, address, port, NULL, &request));
    must("rpma_conn_req_connect", rpma_conn_req_connect(&request, NULL, &conn));
    if (next_event(conn) != RPMA_CONN_ESTABLISHED)
        errx(EXIT_FAILURE, "not connected");
    if (size != 0)
        must("rpma_send", rpma_send(conn, mr, 0, size, RPMA_F_COMPLETION_ALWAYS, NULL));
    if (next_event(conn) != RPMA_CONN_CLOSED)
        errx(EXIT_FAILURE, "not closed");
    must("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    must("rpma_conn_delete", rpma_conn_delete(&conn));
}

/* Responds until the client disconnects. */
static void respond_to_all(struct rpma_conn *conn, struct rpma_mr_local *mr, const char *hex)
{
    struct rpma_cq *cq = NULL;
    struct ibv_wc wc;
    struct pollfd waiting[2] = {{.events = POLLIN}, {.events = POLLIN}};
    const size_t size = parse(hex, memory, MESSAGE_SIZE);
    must("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    must("rpma_cq_get_fd", rpma_cq_get_fd(cq, &waiting[0].fd));
    must("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &waiting[1].fd));
    while (poll(waiting, 2, DEADLINE_MS) > 0 && !waiting[1].revents) {
        must("rpma_cq_wait", rpma_cq_wait(cq));
        while (rpma_cq_get_wc(cq, 1, &wc, NULL) == 0) {
            if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV)
                must("rpma_send", rpma_send(conn, mr, 0, size, RPMA_F_COMPLETION_ALWAYS, NULL));
        }
    }
}

static size_t private_data(struct rpma_mr_local *mr, const char *hex, uint8_t *data, size_t capacity)
{
    static const char region[] = "{region}";
    if (strncmp(hex, region, sizeof(region) - 1) != 0)
        return parse(hex, data, capacity);
    memset(data, 0, BLOCK_SIZE);
    data[0] = 8;  /* messages at once */
    data[3] = 21; /* size of the descriptor */
    must("rpma_mr_get_descriptor", rpma_mr_get_descriptor(mr, data + 4));
    return BLOCK_SIZE;
}

static void act_as_server(struct rpma_peer *peer, struct rpma_mr_local *mr, char **argv)
{
    uint8_t data[UINT8_MAX];
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *request = NULL;
    struct rpma_conn *conn = NULL;
    const size_t size = private_data(mr, argv[4], data, sizeof(data));
    const struct rpma_conn_private_data pdata = {.ptr = data, .len = (uint8_t)size};
    must("rpma_ep_listen", rpma_ep_listen(peer, argv[2], argv[3], &ep));
    must("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &request));
    for (size_t i = 0; i < 8; ++i)
        must("rpma_conn_req_recv", rpma_conn_req_recv(request, mr, MESSAGES + i * MESSAGE_SIZE, MESSAGE_SIZE, memory));
    must("rpma_conn_req_connect", rpma_conn_req_connect(&request, size != 0 ? &pdata : NULL, &conn));
    if (next_event(conn) == RPMA_CONN_ESTABLISHED)
        respond_to_all(conn, mr, argv[5] ? argv[5] : "");
    must("rpma_conn_delete", rpma_conn_delete(&conn));
    must("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
}

int main(int argc, char **argv)
{
    if (argc < 5)
        errx(2, "invalid_peer client|server ADDRESS PORT HEX [HEX]");
    const bool is_client = strcmp(argv[1], "client") == 0;
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    must("rpma_utils_get_ibv_context",
            rpma_utils_get_ibv_context(
                    argv[2], is_client ? RPMA_UTIL_IBV_CONTEXT_REMOTE : RPMA_UTIL_IBV_CONTEXT_LOCAL, &device));
    must("rpma_peer_new", rpma_peer_new(device, &peer));
    must("rpma_mr_reg", rpma_mr_reg(peer, memory, sizeof(memory),
                                RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_WRITE_DST |
                                        RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
                                &mr));
    if (is_client)
        act_as_client(peer, mr, argv[2], argv[3], argv[4]);
    else
        act_as_server(peer, mr, argv);
    must("rpma_mr_dereg", rpma_mr_dereg(&mr));
    must("rpma_peer_delete", rpma_peer_delete(&peer));
    return EXIT_SUCCESS;
}

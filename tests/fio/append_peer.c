// SPDX-License-Identifier: BSD-3-Clause
/*
 * A peer of the append-only file's engines, written from the description of their protocol. It contains no code of the
 * engines. append_peer client sw|hw ADDRESS PORT COUNT: appends COUNT blocks of 4 KiB, up to 8 in flight; all bytes of
 * the nth block are n. append_peer server sw|hw ADDRESS PORT FILE: serves one client; FILE, which is mapped, is the
 * workspace.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <librpma.h>

enum {
    DEPTH = 8,
    BLOCK = 4096,
    MESSAGE = 512,
    REQUEST_SIZE = 36,
    ANSWER_SIZE = 9,
    DESCRIPTION_SIZE = 28,
    DESCRIPTOR_SIZE = 21,
    DEADLINE_MS = 20000
};

static uint8_t messages[2 * DEPTH * MESSAGE]; /* outgoing messages, then incoming ones */
static struct rpma_mr_local *messages_mr;
static struct rpma_conn *conn;
static struct rpma_cq *cq;

static void must(const char *what, int ret)
{
    if (ret)
        errx(EXIT_FAILURE, "%s: %s", what, rpma_err_2str(ret));
}

static void put(uint8_t *at, uint8_t tag, uint64_t value)
{
    *at++ = tag;
    for (unsigned i = 0; i < 8; ++i)
        *at++ = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, uint8_t tag)
{
    uint64_t value = 0;
    if (*at != tag)
        errx(EXIT_FAILURE, "a message has 0x%02x where 0x%02x belongs", *at, tag);
    for (unsigned i = 0; i < 8; ++i)
        value |= (uint64_t)at[1 + i] << 8 * i;
    return value;
}

static void wait_readable(int fd)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    if (poll(&waiting, 1, DEADLINE_MS) != 1)
        errx(EXIT_FAILURE, "the other side does nothing");
}

static enum rpma_conn_event next_event(void)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int fd = -1;
    must("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &fd));
    wait_readable(fd);
    must("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    return event;
}

static struct ibv_wc next_completion(void)
{
    struct ibv_wc wc;
    int fd = -1;
    must("rpma_cq_get_fd", rpma_cq_get_fd(cq, &fd));
    while (rpma_cq_get_wc(cq, 1, &wc, NULL) != 0) {
        wait_readable(fd);
        must("rpma_cq_wait", rpma_cq_wait(cq));
    }
    if (wc.status != IBV_WC_SUCCESS)
        errx(EXIT_FAILURE, "an operation failed with status %d", wc.status);
    return wc;
}

static void post_receive(size_t slot)
{
    must("rpma_recv", rpma_recv(conn, messages_mr, (DEPTH + slot) * MESSAGE, MESSAGE, (const void *)(uintptr_t)slot));
}

static void send_message(size_t slot, size_t size)
{
    must("rpma_send", rpma_send(conn, messages_mr, slot * MESSAGE, size, RPMA_F_COMPLETION_ALWAYS, NULL));
}

static struct rpma_conn_cfg *sizes_of_queues(void)
{
    struct rpma_conn_cfg *cfg = NULL;
    must("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
    must("rpma_conn_cfg_set_sq_size", rpma_conn_cfg_set_sq_size(cfg, 4 * DEPTH));
    must("rpma_conn_cfg_set_rq_size", rpma_conn_cfg_set_rq_size(cfg, DEPTH));
    must("rpma_conn_cfg_set_cq_size", rpma_conn_cfg_set_cq_size(cfg, 6 * DEPTH));
    return cfg;
}

static void established(void)
{
    if (next_event() != RPMA_CONN_ESTABLISHED)
        errx(EXIT_FAILURE, "not connected");
    must("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
}

/* Description of the server's workspace that the client received. */
struct workspace {
    struct rpma_mr_remote *mr;
    size_t size;
    enum rpma_flush_type flush_type;
};

static struct workspace described(bool is_hw)
{
    struct rpma_conn_private_data data = {0};
    struct workspace workspace = {.flush_type = RPMA_FLUSH_TYPE_VISIBILITY};
    struct rpma_peer_cfg *server = NULL;
    must("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &data));
    const uint8_t *bytes = data.ptr;
    if (data.len < DESCRIPTION_SIZE || bytes[3] != DESCRIPTOR_SIZE)
        errx(EXIT_FAILURE, "%u bytes describe no workspace", data.len);
    if (!is_hw && bytes[0] + 256 * bytes[1] < DEPTH)
        errx(EXIT_FAILURE, "the server takes too few messages");
    must("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(bytes + 4, DESCRIPTOR_SIZE, &workspace.mr));
    must("rpma_mr_remote_get_size", rpma_mr_remote_get_size(workspace.mr, &workspace.size));
    if (bytes[4 + 20] & 0x20) {
        if (is_hw && bytes[2] != 1)
            errx(EXIT_FAILURE, "persistent memory without direct write");
        workspace.flush_type = RPMA_FLUSH_TYPE_PERSISTENT;
        must("rpma_peer_cfg_new", rpma_peer_cfg_new(&server));
        must("rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(server, true));
        must("rpma_conn_apply_remote_peer_cfg", rpma_conn_apply_remote_peer_cfg(conn, server));
        must("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&server));
    }
    return workspace;
}

static void post_append(const struct workspace *workspace, struct rpma_mr_local *blocks, uint64_t number, bool is_hw)
{
    const size_t slot = number % DEPTH;
    const uint64_t offset = number * BLOCK;
    const uint64_t end = offset + BLOCK;
    const uint64_t pointer = workspace->size - 8;
    const void *context = (const void *)(uintptr_t)number;
    must("rpma_write",
            rpma_write(conn, workspace->mr, offset, blocks, slot * BLOCK, BLOCK, RPMA_F_COMPLETION_ON_ERROR, context));
    if (is_hw) {
        must("rpma_flush", rpma_flush(conn, workspace->mr, offset, BLOCK, workspace->flush_type,
                                   RPMA_F_COMPLETION_ON_ERROR, context));
        must("rpma_atomic_write", rpma_atomic_write(conn, workspace->mr, pointer, (const char *)&end,
                                          RPMA_F_COMPLETION_ON_ERROR, context));
        must("rpma_flush",
                rpma_flush(conn, workspace->mr, pointer, 8, workspace->flush_type, RPMA_F_COMPLETION_ALWAYS, context));
        return;
    }
    uint8_t *message = messages + slot * MESSAGE;
    put(message, 0x09, offset);
    put(message + 9, 0x11, BLOCK);
    put(message + 18, 0x19, pointer);
    put(message + 27, 0x21, number);
    post_receive(slot);
    send_message(slot, REQUEST_SIZE);
}

/* Waits until the append with that number, the oldest one, is done. */
static void await_append(uint64_t number, bool is_hw)
{
    struct ibv_wc wc = next_completion();
    while (!is_hw && wc.opcode == IBV_WC_SEND)
        wc = next_completion();
    const uint64_t done = is_hw ? wc.wr_id : get(messages + (DEPTH + wc.wr_id) * MESSAGE, 0x09);
    if (done != number || (!is_hw && wc.byte_len != ANSWER_SIZE))
        errx(EXIT_FAILURE, "append %ju is done before append %ju", (uintmax_t)done, (uintmax_t)number);
}

static void act_as_client(struct rpma_peer *peer, bool is_hw, char **argv)
{
    static uint8_t blocks[DEPTH * BLOCK];
    struct rpma_conn_cfg *cfg = sizes_of_queues();
    struct rpma_conn_req *request = NULL;
    struct rpma_mr_local *mr = NULL;
    const uint64_t count = strtoull(argv[5], NULL, 10);
    must("rpma_mr_reg", rpma_mr_reg(peer, blocks, sizeof(blocks), RPMA_MR_USAGE_WRITE_SRC, &mr));
    must("rpma_conn_req_new", rpma_conn_req_new(peer, argv[3], argv[4], cfg, &request));
    must("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    must("rpma_conn_req_connect", rpma_conn_req_connect(&request, NULL, &conn));
    established();
    struct workspace workspace = described(is_hw);
    if (count > (workspace.size - 8) / BLOCK)
        errx(EXIT_FAILURE, "%ju blocks do not fit", (uintmax_t)count);

    for (uint64_t number = 0; number < count + DEPTH; ++number) {
        if (number >= DEPTH)
            await_append(number - DEPTH, is_hw);
        if (number < count) {
            memset(blocks + number % DEPTH * BLOCK, (int)(number & 0xff), BLOCK);
            post_append(&workspace, mr, number, is_hw);
        }
    }
    if (!is_hw) {
        memset(messages, 0, MESSAGE);
        for (unsigned i = 0; i < 4; ++i)
            put(messages + (size_t)9 * i, (uint8_t)(0x09 + 8 * i), 0);
        send_message(0, REQUEST_SIZE);
        if (next_event() != RPMA_CONN_CLOSED)
            errx(EXIT_FAILURE, "the server does not end on request");
    }
    must("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    must("rpma_mr_remote_delete", rpma_mr_remote_delete(&workspace.mr));
    must("rpma_mr_dereg", rpma_mr_dereg(&mr));
}

/* Serves until the client reports that it is done. */
static void serve(uint8_t *workspace, size_t size)
{
    for (;;) {
        const struct ibv_wc wc = next_completion();
        if (wc.opcode != IBV_WC_RECV)
            continue;
        const uint8_t *message = messages + (DEPTH + wc.wr_id) * MESSAGE;
        const uint64_t offset = get(message, 0x09);
        const uint64_t length = get(message + 9, 0x11);
        const uint64_t pointer = get(message + 18, 0x19);
        const uint64_t context = get(message + 27, 0x21);
        if (wc.byte_len != REQUEST_SIZE)
            errx(EXIT_FAILURE, "a request has %u bytes", wc.byte_len);
        if ((offset | length | pointer | context) == 0)
            return;
        if (pointer != size - 8 || length == 0 || offset > pointer || length > pointer - offset)
            errx(EXIT_FAILURE, "a request is about %ju bytes at %ju and the pointer at %ju", (uintmax_t)length,
                    (uintmax_t)offset, (uintmax_t)pointer);
        const uint64_t end = offset + length;
        memcpy(workspace + pointer, &end, sizeof(end));
        post_receive(wc.wr_id);
        put(messages + wc.wr_id * MESSAGE, 0x09, context);
        send_message(wc.wr_id, ANSWER_SIZE);
    }
}

static uint8_t *map(const char *path, size_t *size)
{
    struct stat status;
    const int fd = open(path, O_RDWR);
    if (fd < 0 || fstat(fd, &status) != 0)
        err(EXIT_FAILURE, "%s", path);
    *size = (size_t)status.st_size;
    void *base = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        err(EXIT_FAILURE, "%s", path);
    (void)close(fd);
    return base;
}

static void act_as_server(struct rpma_peer *peer, bool is_hw, char **argv)
{
    struct rpma_conn_cfg *cfg = sizes_of_queues();
    struct rpma_conn_req *request = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_ep *ep = NULL;
    size_t size = 0;
    uint8_t *workspace = map(argv[5], &size);
    /* For hw, the number of messages is uninitialized memory in older engines. */
    uint8_t description[DESCRIPTION_SIZE] = {is_hw ? 0xa5 : DEPTH, is_hw ? 0xa5 : 0, is_hw ? 1 : 0, DESCRIPTOR_SIZE};
    const struct rpma_conn_private_data data = {.ptr = description, .len = sizeof(description)};
    const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                      RPMA_MR_USAGE_WRITE_DST |
                      (is_hw ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    must("rpma_mr_reg", rpma_mr_reg(peer, workspace, size, usage, &mr));
    must("rpma_mr_get_descriptor", rpma_mr_get_descriptor(mr, description + 4));
    must("rpma_ep_listen", rpma_ep_listen(peer, argv[3], argv[4], &ep));
    must("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, &request));
    must("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    for (size_t slot = 0; !is_hw && slot < DEPTH; ++slot)
        must("rpma_conn_req_recv", rpma_conn_req_recv(request, messages_mr, (DEPTH + slot) * MESSAGE, MESSAGE,
                                           (const void *)(uintptr_t)slot));
    must("rpma_conn_req_connect", rpma_conn_req_connect(&request, &data, &conn));
    established();
    if (is_hw) {
        if (next_event() != RPMA_CONN_CLOSED)
            errx(EXIT_FAILURE, "not closed");
    } else {
        serve(workspace, size);
    }
    must("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    must("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    must("rpma_mr_dereg", rpma_mr_dereg(&mr));
    (void)munmap(workspace, size);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        errx(2, "append_peer client|server sw|hw ADDRESS PORT COUNT|FILE");
    const bool is_client = strcmp(argv[1], "client") == 0;
    const bool is_hw = strcmp(argv[2], "hw") == 0;
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    must("rpma_utils_get_ibv_context",
            rpma_utils_get_ibv_context(
                    argv[3], is_client ? RPMA_UTIL_IBV_CONTEXT_REMOTE : RPMA_UTIL_IBV_CONTEXT_LOCAL, &device));
    must("rpma_peer_new", rpma_peer_new(device, &peer));
    must("rpma_mr_reg",
            rpma_mr_reg(peer, messages, sizeof(messages), RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &messages_mr));
    if (is_client)
        act_as_client(peer, is_hw, argv);
    else
        act_as_server(peer, is_hw, argv);
    must("rpma_conn_delete", rpma_conn_delete(&conn));
    must("rpma_mr_dereg", rpma_mr_dereg(&messages_mr));
    must("rpma_peer_delete", rpma_peer_delete(&peer));
    return EXIT_SUCCESS;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * A write followed by a read, using only librdmacm and libibverbs. Separates kernel behavior from librpma's: a lost
 * write is not repeated if it waits for earlier reads (IBV_SEND_FENCE), and where a write into memory with On-Demand
 * Paging is stored.
 */
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

enum {
    MEMORY_SIZE = 4096,
    WRITE_OFFSET = 100, /* in the server's memory */
    READ_OFFSET = 2048, /* in the client's memory */
    RETRY_ENDLESSLY = 7
};

struct place {
    uint64_t address;
    uint32_t rkey;
} __attribute__((packed));

static const char text[8] = "written";
static char memory[MEMORY_SIZE] __attribute__((aligned(MEMORY_SIZE)));

/* Listens if the flags contain RAI_PASSIVE, and connects otherwise. */
static struct rdma_cm_id *create_endpoint(char *addr, char *port, int flags)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags};
    struct ibv_qp_init_attr qp = {
            .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};
    struct rdma_addrinfo *info = NULL;
    struct rdma_cm_id *id = NULL;
    if (rdma_getaddrinfo(addr, port, &hints, &info) || rdma_create_ep(&id, info, NULL, &qp))
        err(1, "%s port %s", addr, port);
    rdma_freeaddrinfo(info);
    return id;
}

static struct ibv_mr *register_memory(struct rdma_cm_id *id, unsigned access)
{
    struct ibv_mr *mr = ibv_reg_mr(id->pd, memory, sizeof(memory),
            access | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!mr)
        err(1, "ibv_reg_mr");
    return mr;
}

/* Exits with 0 if the client's text has the right offset, and with 3 if it has another one. */
static int find_text(void)
{
    for (int at = 0; at < MEMORY_SIZE - (int)sizeof(text); ++at) {
        if (memcmp(memory + at, text, sizeof(text)) == 0) {
            printf("data written to offset %d is at offset %d\n", WRITE_OFFSET, at);
            return at == WRITE_OFFSET ? 0 : 3;
        }
    }
    puts("the written data was not found");
    return 3;
}

/* Serves one client until the connection ends in any way. */
static int serve(char *addr, char *port, unsigned access)
{
    struct rdma_cm_id *listener = create_endpoint(addr, port, RAI_PASSIVE);
    struct rdma_cm_id *id = NULL;
    if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
        err(1, "rdma_get_request");
    struct ibv_mr *mr = register_memory(id, access);
    const struct place place = {.address = (uintptr_t)memory + WRITE_OFFSET, .rkey = mr->rkey};
    struct rdma_conn_param param = {
            .private_data = &place, .private_data_len = sizeof(place), .responder_resources = 1, .initiator_depth = 1};
    struct rdma_cm_event *event = NULL;
    if (rdma_accept(id, &param) || rdma_get_cm_event(id->channel, &event))
        err(1, "rdma_accept");
    return find_text();
}

/* Returns false if the read does not complete in time. */
static bool await_read(struct rdma_cm_id *id, unsigned limit_s)
{
    struct ibv_wc wc;
    const time_t end = time(NULL) + limit_s;
    while (time(NULL) <= end) {
        const int count = ibv_poll_cq(id->send_cq, 1, &wc);
        if (count < 0)
            errx(1, "ibv_poll_cq fails");
        if (count == 1 && wc.status != IBV_WC_SUCCESS)
            errx(1, "a completion with status %s", ibv_wc_status_str(wc.status));
        if (count == 1)
            return true;
        usleep(1000);
    }
    return false;
}

/* Exits with 0 if the read returns the written data, and with 3 if it does not complete. */
static int write_and_read(char *addr, char *port, int flags, unsigned limit_s)
{
    struct rdma_cm_id *id = create_endpoint(addr, port, 0);
    struct ibv_mr *mr = register_memory(id, 0);
    struct rdma_conn_param param = {.responder_resources = 1,
            .initiator_depth = 1,
            .retry_count = RETRY_ENDLESSLY,
            .rnr_retry_count = RETRY_ENDLESSLY};
    struct place place;
    if (rdma_connect(id, &param))
        err(1, "rdma_connect");
    memcpy(&place, id->event->param.conn.private_data, sizeof(place));

    memcpy(memory, text, sizeof(text));
    if (rdma_post_write(id, NULL, memory, sizeof(text), mr, flags, place.address, place.rkey) ||
            rdma_post_read(
                    id, NULL, memory + READ_OFFSET, sizeof(text), mr, IBV_SEND_SIGNALED, place.address, place.rkey))
        err(1, "posting");
    puts("posted");
    fflush(stdout);
    if (!await_read(id, limit_s)) {
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        const int failed = ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init);
        printf("no completion; the state of the queue pair: %s\n", failed ? "unknown"
                                                                   : attr.qp_state == IBV_QPS_RTS
                                                                           ? "ready to send"
                                                                           : "not ready to send");
        return 3;
    }
    if (memcmp(memory + READ_OFFSET, text, sizeof(text)) != 0)
        errx(1, "the read returned other data than was written");
    puts("the read returned the written data");
    return rdma_disconnect(id) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "server") == 0)
        return serve(argv[2], argv[3], 0);
    if (argc == 4 && strcmp(argv[1], "on-demand-server") == 0)
        return serve(argv[2], argv[3], IBV_ACCESS_ON_DEMAND);
    if (argc == 5 && strcmp(argv[1], "plain") == 0)
        return write_and_read(argv[2], argv[3], 0, (unsigned)atoi(argv[4]));
    if (argc == 5 && strcmp(argv[1], "fenced") == 0)
        return write_and_read(argv[2], argv[3], IBV_SEND_FENCE, (unsigned)atoi(argv[4]));
    fprintf(stderr, "Usage: %s server|on-demand-server ADDR PORT | %s plain|fenced ADDR PORT LIMIT-S\n", argv[0],
            argv[0]);
    return 2;
}

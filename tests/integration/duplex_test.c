// SPDX-License-Identifier: BSD-3-Clause
/* Both ends access each other's memory at the same time, with more bytes in flight than any socket buffer can hold. */
#include "support/rdma.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define CHUNK (4u << 20)
#define ROUNDS 4u

/* Areas of each side's memory: source of its writes, destination of the peer's writes, destination of its reads. */
enum {
    OWN,
    FOREIGN,
    BACK,
    PARTS
};

struct duplex {
    struct region memory;
    struct region messages;
    struct rpma_conn *conn;
    struct rpma_mr_remote *remote;
    unsigned seed;         /* pattern that the local side writes */
    unsigned foreign_seed; /* pattern that the peer writes */
};

static struct region make_memory(struct side *self, struct rpma_peer *peer)
{
    return make_region(self, peer, PARTS * (size_t)CHUNK, USAGE_MEMORY);
}

static void collect_one(struct duplex *duplex, const char *what, unsigned *sent, unsigned *received, unsigned *read)
{
    struct ibv_wc wc = next_completion(main_cq(duplex->conn));
    if (wc.status != IBV_WC_SUCCESS)
        check_failed(__FILE__, __LINE__, "%s: \"%s\"", what, ibv_wc_status_str(wc.status));
    *sent += wc.opcode == IBV_WC_SEND;
    *received += wc.opcode == IBV_WC_RECV;
    *read += wc.opcode == IBV_WC_RDMA_READ;
}

/* Writes a chunk, reads it back, notifies the peer and waits until the peer did the same. */
static void play_round(struct duplex *duplex, unsigned round)
{
    char *memory = duplex->memory.ptr;
    struct rpma_mr_local *local = duplex->memory.mr;
    unsigned sent = 0, received = 0, read = 0;
    fill_pattern(memory + OWN * CHUNK, CHUNK, duplex->seed + round);
    CHECK_OK(rpma_recv(duplex->conn, duplex->messages.mr, 0, 8, NULL));
    CHECK_OK(rpma_write(duplex->conn, duplex->remote, FOREIGN * CHUNK, local, OWN * CHUNK, CHUNK, ON_ERROR, NULL));
    CHECK_OK(rpma_read(duplex->conn, local, BACK * CHUNK, duplex->remote, FOREIGN * CHUNK, CHUNK, ALWAYS, NULL));
    CHECK_OK(rpma_send(duplex->conn, duplex->messages.mr, 8, 8, ALWAYS, NULL));
    while (!sent || !received || !read)
        collect_one(duplex, "while both sides write", &sent, &received, &read);
    check_pattern(memory + BACK * CHUNK, CHUNK, duplex->seed + round);
    check_pattern(memory + FOREIGN * CHUNK, CHUNK, duplex->foreign_seed + round);

    /* The next write of the peer must not arrive before this check has ended. */
    CHECK_OK(rpma_recv(duplex->conn, duplex->messages.mr, 0, 8, NULL));
    CHECK_OK(rpma_send(duplex->conn, NULL, 0, 0, ALWAYS, NULL));
    while (sent < 2 || received < 2)
        collect_one(duplex, "between rounds", &sent, &received, &read);
}

static void play(struct duplex *duplex)
{
    for (unsigned round = 0; round < ROUNDS; ++round)
        play_round(duplex, round);
}

/* The client sends the descriptor of its region with its request. */
static void serve_duplex(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct duplex duplex = {.memory = make_memory(self, peer), .seed = 1, .foreign_seed = 101};
    duplex.messages = make_region(self, peer, 16, USAGE_MESSAGES);
    struct greeting greeting = make_greeting(&duplex.memory, 1, false);
    struct rpma_ep *ep = make_ep(self, peer, NULL);
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.cq = 32});
    struct rpma_conn_req *req = next_request(self, ep, cfg);
    struct rpma_conn_private_data pdata;
    CHECK_OK(rpma_conn_req_get_private_data(req, &pdata));
    CHECK(pdata.len >= DESCRIPTOR_SIZE);
    duplex.remote = make_remote(self, pdata.ptr);
    CHECK_OK(rpma_conn_req_recv(req, duplex.messages.mr, 0, 8, NULL));
    duplex.conn =
            connect_request(self, req, &(struct rpma_conn_private_data){.ptr = &greeting, .len = sizeof(greeting)});
    expect_event(duplex.conn, RPMA_CONN_ESTABLISHED);
    play(&duplex);
    send_line(self->link, "played");
    expect_end(duplex.conn);
}

INTEGRATION_TEST(both_sides_write_and_read_megabytes_at_once)
{
    struct server *server = start_server(self, "duplex", "-");
    struct rpma_peer *peer = make_peer(self);
    struct duplex duplex = {.memory = make_memory(self, peer), .seed = 101, .foreign_seed = 1};
    duplex.messages = make_region(self, peer, 16, USAGE_MESSAGES);
    struct greeting greeting = make_greeting(&duplex.memory, 1, false);
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.cq = 32});
    struct rpma_conn_req *req = new_request(self, peer, server->port, cfg);
    CHECK_OK(rpma_conn_req_recv(req, duplex.messages.mr, 0, 8, NULL));
    duplex.conn = connect_request(
            self, req, &(struct rpma_conn_private_data){.ptr = greeting.descriptors[0], .len = DESCRIPTOR_SIZE});
    expect_event(duplex.conn, RPMA_CONN_ESTABLISHED);
    duplex.remote = remote_region(self, duplex.conn, 0);
    play(&duplex);
    expect_line(server->link, "played");
}

INTEGRATION_MAIN_WITH_ROLES({"duplex", serve_duplex})

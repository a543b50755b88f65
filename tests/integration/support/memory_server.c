// SPDX-License-Identifier: BSD-3-Clause
#include "memory_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

struct memory_server {
    struct side *self;
    struct region memory;
    struct region messages;
    struct rpma_conn *conn;
};

static void post_receives(struct memory_server *server, size_t offset, size_t length, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (length)
            CHECK_OK(rpma_recv(server->conn, server->messages.mr, offset, length, NULL));
        else
            CHECK_OK(rpma_recv(server->conn, NULL, 0, 0, NULL));
    }
}

static void send_message(struct memory_server *server, size_t offset, size_t length, unsigned seed, long long imm)
{
    CHECK(length <= server->messages.size && offset <= server->messages.size - length);
    fill_pattern(server->messages.ptr + offset, length, seed);
    const struct rpma_mr_local *source = length ? server->messages.mr : NULL;
    if (imm < 0)
        CHECK_OK(rpma_send(server->conn, source, offset, length, RPMA_F_COMPLETION_ALWAYS, server));
    else
        CHECK_OK(rpma_send_with_imm(
                server->conn, source, offset, length, RPMA_F_COMPLETION_ALWAYS, (uint32_t)imm, server));
    expect_completion(main_cq(server->conn), IBV_WC_SEND, server);
}

static void report_completion(struct memory_server *server)
{
    struct ibv_wc wc = next_completion(main_cq(server->conn));
    uint32_t imm = (wc.wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc.imm_data) : 0;
    send_line(server->self->link, "completion %d %d %u %u %u", (int)wc.status, (int)wc.opcode, wc.byte_len, wc.wc_flags,
            imm);
}

static bool obey(struct memory_server *server, const char *line)
{
    char word[16];
    size_t offset = 0, length = 0;
    unsigned number = 0;
    long long imm = -1;
    int count = sscanf(line, "%15s %zu %zu %u %lld", word, &offset, &length, &number, &imm);
    CHECK(count >= 1);
    if (!strcmp(word, "collect")) {
        report_completion(server);
        return true;
    }
    if (!strcmp(word, "fill"))
        fill_pattern(server->memory.ptr + offset, length, number);
    else if (!strcmp(word, "check"))
        check_pattern(server->memory.ptr + offset, length, number);
    else if (!strcmp(word, "message"))
        check_pattern(server->messages.ptr + offset, length, number);
    else if (!strcmp(word, "recv"))
        post_receives(server, offset, length, number);
    else if (!strcmp(word, "send"))
        send_message(server, offset, length, number, imm);
    else
        return false;
    send_line(server->self->link, "ok");
    return true;
}

void serve_memory(struct side *self, const char *argument)
{
    size_t size = 0, messages_size = 0;
    int usage = 0;
    char path[128];
    CHECK_EQ(sscanf(argument, "%zu %d %127s %zu", &size, &usage, path, &messages_size), 4);
    struct memory_server server = {.self = self};
    struct rpma_peer *peer = make_peer(self);
    bool in_file = strcmp(path, "-") != 0;
    server.memory = in_file ? map_region(self, peer, path, size, usage) : make_region(self, peer, size, usage);
    server.messages = make_region(self, peer, messages_size, USAGE_MESSAGES);
    struct region regions[] = {server.memory, server.messages};
    struct greeting greeting = make_greeting(regions, 2, in_file);
    struct rpma_ep *ep = make_ep(self, peer, NULL);
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.cq = 64, .sq = 16, .rq = 32});
    server.conn = accept_next(self, ep, cfg, &greeting);
    char line[256];
    while (link_read(self->link, line, sizeof(line))) {
        if (!obey(&server, line))
            check_failed(__FILE__, __LINE__, "cannot \"%s\"", line);
    }
}

struct ibv_wc collect_completion(struct server *server)
{
    send_line(server->link, "collect");
    char line[256];
    CHECK(link_read(server->link, line, sizeof(line)));
    int status, opcode;
    struct ibv_wc wc = {0};
    if (sscanf(line, "completion %d %d %u %u %u", &status, &opcode, &wc.byte_len, &wc.wc_flags, &wc.imm_data) != 5)
        check_failed(__FILE__, __LINE__, "received \"%s\" instead of a completion", line);
    wc.status = (enum ibv_wc_status)status;
    wc.opcode = (enum ibv_wc_opcode)opcode;
    return wc;
}

struct session open_session_with(
        struct side *self, struct server *server, size_t local_size, const struct rpma_conn_cfg *cfg)
{
    struct session session = {.server = server};
    session.peer = make_peer(self);
    session.local = make_region(self, session.peer, local_size, USAGE_MEMORY | USAGE_MESSAGES);
    session.conn = connect_to(self, session.peer, server->port, cfg);
    session.cq = main_cq(session.conn);
    session.remote = remote_region(self, session.conn, 0);
    return session;
}

struct session open_session(struct side *self, size_t size, const struct rpma_conn_cfg *cfg)
{
    struct server *server = start_server(self, "memory", "%zu %d - %d", size, USAGE_MEMORY, MESSAGE_REGION_SIZE);
    return open_session_with(self, server, size, cfg);
}

// SPDX-License-Identifier: BSD-3-Clause
/* The role "memory" of every test program: a server that offers memory and executes the commands of the test. */
#pragma once

#include "rdma.h"

/*
 * argument: size in bytes, usage bits of the memory, path of a file to map or "-", size of the message region.
 * Greets with the memory (0) and the message region (1), accepts one connection and obeys, answering "ok":
 *   fill offset length seed      fills the memory
 *   check offset length seed     checks the memory
 *   recv offset length count     posts receives into the message region; recv 0 0 posts one without a buffer
 *   collect                      answers with the next completion instead, see collect_completion
 *   message offset length seed   checks the message region
 *   send offset length seed imm  fills the message region and sends that, with an immediate value unless it is -1
 */
void serve_memory(struct side *self, const char *argument);

#define MESSAGE_REGION_SIZE 65536

/* Returns the next completion that the server reports. imm is in host byte order, 0 if absent. */
struct ibv_wc collect_completion(struct server *server);

/* A client of the memory role, or of a role with the same greeting. */
struct session {
    struct server *server;
    struct rpma_peer *peer;
    struct region local; /* registered for every usage */
    struct rpma_conn *conn;
    struct rpma_cq *cq;
    struct rpma_mr_remote *remote;
};

/* Starts a memory server for size bytes of memory of USAGE_MEMORY and connects to it. cfg may be NULL. */
struct session open_session(struct side *self, size_t size, const struct rpma_conn_cfg *cfg);

/* Like open_session, with a server that was started before. cfg may be NULL. */
struct session open_session_with(
        struct side *self, struct server *server, size_t local_size, const struct rpma_conn_cfg *cfg);

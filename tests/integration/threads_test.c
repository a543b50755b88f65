// SPDX-License-Identifier: BSD-3-Clause
/* Many threads on one endpoint, one peer, or one connection. */
#include "support/memory_server.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define SLOT_SIZE 1024

#define LISTENED 40

struct inbox {
    struct rpma_ep *ep;
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct rpma_conn_req *reqs[LISTENED];
    int count;
};

static void listen_in_a_loop(struct side *self, void *argument)
{
    struct inbox *inbox = argument;
    for (int i = 0; i < LISTENED; ++i) {
        struct rpma_conn_req *req = NULL;
        CHECK_OK(rpma_ep_next_conn_req(inbox->ep, NULL, &req));
        pthread_mutex_lock(&inbox->mutex);
        inbox->reqs[inbox->count++] = req;
        pthread_cond_signal(&inbox->filled);
        pthread_mutex_unlock(&inbox->mutex);
    }
}

static struct rpma_conn_req *take(struct inbox *inbox, int index)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += deadline_ms() / 1000;
    pthread_mutex_lock(&inbox->mutex);
    int result = 0;
    while (inbox->count <= index && result == 0)
        result = pthread_cond_timedwait(&inbox->filled, &inbox->mutex, &until);
    struct rpma_conn_req *req = inbox->count > index ? inbox->reqs[index] : NULL;
    pthread_mutex_unlock(&inbox->mutex);
    return req;
}

/* One thread waits in rpma_ep_next_conn_req while another one connects. Each must receive only its own events. */
static void serve_with_a_listening_thread(struct side *self, const char *argument)
{
    char port[8];
    struct inbox inbox = {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
    inbox.ep = make_ep(self, make_peer(self), port);
    struct worker *listener = start_worker(self, listen_in_a_loop, &inbox);
    for (int i = 0; i < LISTENED; ++i) {
        struct rpma_conn_req *req = take(&inbox, i);
        CHECK(req != NULL);
        scope_add(&self->scope, release_req, req);
        if (i % 8 == 7) {
            scope_drop(&self->scope, req);
            continue;
        }
        struct rpma_conn *conn = connect_request(self, req, NULL);
        expect_event(conn, RPMA_CONN_ESTABLISHED);
        if (i % 2 == 0) {
            expect_end(conn);
            scope_drop(&self->scope, conn);
        }
    }
    join_worker(self, listener);
    send_line(self->link, "took all");
}

INTEGRATION_TEST(a_listening_thread_drops_no_event_of_a_connection)
{
    needs_no_older_library();
    struct server *server = start_server(self, "listening thread", "-");
    struct rpma_peer *peer = make_peer(self);
    for (int i = 0; i < LISTENED; ++i) {
        struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
        expect_event(conn, i % 8 == 7 ? RPMA_CONN_REJECTED : RPMA_CONN_ESTABLISHED);
        if (i % 2 == 0)
            CHECK_OK(rpma_conn_disconnect(conn));
    }
    expect_line(server->link, "took all");
}

#define THREADS 8
#define OPERATIONS 200

struct shared_peer {
    struct rpma_peer *peer;
    const char *port;
    unsigned number;
};

/* Repeatedly registers memory, connects, and transfers data in its own slot. */
static void use_the_peer(struct side *self, void *argument)
{
    const struct shared_peer *shared = argument;
    size_t offset = shared->number * SLOT_SIZE;
    for (unsigned round = 0; round < 4; ++round) {
        struct region local = make_region(self, shared->peer, 2 * SLOT_SIZE, USAGE_MEMORY);
        struct rpma_conn *conn = connect_to(self, shared->peer, shared->port, NULL);
        struct rpma_mr_remote *remote = remote_region(self, conn, 0);
        for (unsigned i = 0; i < 20; ++i) {
            fill_pattern(local.ptr, SLOT_SIZE, shared->number + round + i);
            CHECK_OK(rpma_write(conn, remote, offset, local.mr, 0, SLOT_SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
            CHECK_OK(rpma_read(conn, local.mr, SLOT_SIZE, remote, offset, SLOT_SIZE, ALWAYS, &local));
            expect_completion(main_cq(conn), IBV_WC_RDMA_READ, &local);
            check_pattern(local.ptr + SLOT_SIZE, SLOT_SIZE, shared->number + round + i);
        }
        disconnect(conn);
        scope_drop(&self->scope, conn);
        scope_drop(&self->scope, local.mr);
    }
}

static void accept_in_a_thread(struct side *self, void *argument)
{
    struct rpma_conn *conn = argument;
    enum rpma_conn_event event = next_event(conn);
    /* The disconnection can overtake the handshake in the kernel. Then the kernel and older versions of librpma report
     * only the end. */
    if (event != RPMA_CONN_CLOSED || !with_older_library()) {
        CHECK_EQ(event, RPMA_CONN_ESTABLISHED);
        expect_end(conn);
    }
    CHECK_OK(rpma_conn_disconnect(conn));
}

/* Runs one thread for each connection. All share one peer and one region. */
static void serve_with_threads(struct side *self, const char *argument)
{
    int count = atoi(argument);
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, THREADS * SLOT_SIZE, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    struct rpma_conn_private_data pdata = {.ptr = &greeting, .len = sizeof(greeting)};
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    struct worker *workers[4 * THREADS];
    CHECK(count <= 4 * THREADS);
    for (int i = 0; i < count; ++i) {
        struct rpma_conn *conn = connect_request(self, next_request(self, ep, NULL), &pdata);
        workers[i] = start_worker(self, accept_in_a_thread, conn);
    }
    for (int i = 0; i < count; ++i)
        join_worker(self, workers[i]);
}

INTEGRATION_TEST(many_threads_share_one_peer)
{
    struct server *server = start_server(self, "threads", "%d", 4 * THREADS);
    struct rpma_peer *peer = make_peer(self);
    struct shared_peer shared[THREADS];
    struct worker *workers[THREADS];
    for (unsigned i = 0; i < THREADS; ++i) {
        shared[i] = (struct shared_peer){peer, server->port, i};
        workers[i] = start_worker(self, use_the_peer, &shared[i]);
    }
    for (unsigned i = 0; i < THREADS; ++i)
        join_worker(self, workers[i]);
}

struct poster {
    struct session *session;
    size_t offset;
    int completed;
};

/* Writes, reads back and compares in its own slot. The main thread collects all completions. */
static void post_operations(struct side *self, void *argument)
{
    struct poster *poster = argument;
    struct session *session = poster->session;
    char *bytes = session->local.ptr + 2 * poster->offset;
    for (unsigned i = 1; i <= OPERATIONS; ++i) {
        fill_pattern(bytes, SLOT_SIZE, i);
        CHECK_OK(rpma_write(session->conn, session->remote, poster->offset, session->local.mr, 2 * poster->offset,
                SLOT_SIZE, RPMA_F_COMPLETION_ON_ERROR, poster));
        CHECK_OK(rpma_read(session->conn, session->local.mr, 2 * poster->offset + SLOT_SIZE, session->remote,
                poster->offset, SLOT_SIZE, ALWAYS, poster));
        int64_t until = deadline();
        while (__atomic_load_n(&poster->completed, __ATOMIC_ACQUIRE) < (int)i) {
            CHECK(now_ms() < until);
            sched_yield();
        }
        check_pattern(bytes + SLOT_SIZE, SLOT_SIZE, i);
    }
}

INTEGRATION_TEST(many_threads_operate_on_one_connection)
{
    enum {
        posters_count = 4
    };
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.sq = 4 * posters_count, .cq = 4 * posters_count});
    struct session session = open_session(self, 2 * posters_count * SLOT_SIZE, cfg);
    struct poster posters[posters_count];
    struct worker *workers[posters_count];
    for (size_t i = 0; i < posters_count; ++i) {
        posters[i] = (struct poster){.session = &session, .offset = i * SLOT_SIZE};
        workers[i] = start_worker(self, post_operations, &posters[i]);
    }
    for (int left = posters_count * OPERATIONS; left > 0; --left) {
        struct ibv_wc wc = next_completion(session.cq);
        CHECK_EQ(wc.status, IBV_WC_SUCCESS);
        struct poster *poster = (struct poster *)(uintptr_t)wc.wr_id;
        __atomic_fetch_add(&poster->completed, 1, __ATOMIC_RELEASE);
    }
    for (size_t i = 0; i < posters_count; ++i)
        join_worker(self, workers[i]);
}

INTEGRATION_MAIN_WITH_ROLES({"listening thread", serve_with_a_listening_thread}, {"threads", serve_with_threads})

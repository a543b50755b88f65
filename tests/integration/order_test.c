// SPDX-License-Identifier: BSD-3-Clause
/* States that another server thread may observe while a client writes: order of operations, and atomicity of words. */
#include "support/memory_server.h"

#include <string.h>

#define RECORDS 400
#define RECORD_SIZE 192
#define POINTER_SIZE 64
#define MEMORY_SIZE (POINTER_SIZE + RECORDS * RECORD_SIZE)
#define WATCHED_AT 8
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR

static uint64_t load_word(const char *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

/* Follows the pointer at the start of the memory while the client appends. All records before it must be present. */
static void serve_a_log_reader(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, MEMORY_SIZE, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    accept_next(self, make_ep(self, peer, NULL), NULL, &greeting);
    int64_t until = deadline();
    for (uint64_t seen = 0; seen < RECORDS;) {
        uint64_t pointer = load_word(memory.ptr);
        CHECK(pointer >= seen && pointer <= RECORDS);
        for (; seen < pointer; ++seen)
            check_pattern(memory.ptr + POINTER_SIZE + seen * RECORD_SIZE, RECORD_SIZE, (unsigned)seen + 1);
        CHECK(now_ms() < until);
    }
    send_line(self->link, "read all");
}

static void append(struct session *session, uint64_t number, bool signalled)
{
    size_t offset = (size_t)(number - 1) * RECORD_SIZE;
    fill_pattern(session->local.ptr + offset, RECORD_SIZE, (unsigned)number);
    CHECK_OK(rpma_write(session->conn, session->remote, POINTER_SIZE + offset, session->local.mr, offset, RECORD_SIZE,
            ON_ERROR, NULL));
    CHECK_OK(rpma_flush(session->conn, session->remote, POINTER_SIZE + offset, RECORD_SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
            ON_ERROR, NULL));
    CHECK_OK(rpma_atomic_write(session->conn, session->remote, 0, (const char *)&number, ON_ERROR, NULL));
    CHECK_OK(rpma_flush(session->conn, session->remote, 0, sizeof(number), RPMA_FLUSH_TYPE_VISIBILITY,
            signalled ? ALWAYS : ON_ERROR, session));
    if (signalled)
        expect_flush(session->cq, session);
}

INTEGRATION_TEST(the_pointer_is_never_ahead_of_the_data)
{
    struct server *server = start_server(self, "log reader", "-");
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.sq = 40});
    struct session session = open_session_with(self, server, MEMORY_SIZE, cfg);
    for (uint64_t number = 1; number <= RECORDS; ++number)
        append(&session, number, number % 8 == 0);
    expect_line(server->link, "read all");
}

/*
 * Watches a word that the client writes repeatedly. All eight bytes of the word must always be equal. The last written
 * value is UINT64_MAX.
 */
static void serve_a_word_watcher(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, WATCHED_AT + sizeof(uint64_t), USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    accept_next(self, make_ep(self, peer, NULL), NULL, &greeting);
    int64_t until = deadline();
    for (uint64_t word = 0; word != UINT64_MAX;) {
        CHECK(now_ms() < until);
        for (int i = 0; i < 1000; ++i) {
            word = load_word(memory.ptr + WATCHED_AT);
            if (word != (word & 0xff) * 0x0101010101010101u)
                check_failed(__FILE__, __LINE__, "torn word %#llx", (unsigned long long)word);
        }
    }
    send_line(self->link, "whole");
}

INTEGRATION_TEST(atomic_writes_are_never_seen_torn)
{
    struct server *server = start_server(self, "word watcher", "-");
    struct session session = open_session_with(self, server, 8, NULL);
    for (int i = 1; i <= 10000; ++i) {
        char word[8];
        memset(word, i == 10000 ? 0xff : i % 254 + 1, sizeof(word));
        CHECK_OK(
                rpma_atomic_write(session.conn, session.remote, WATCHED_AT, word, i % 2 ? ON_ERROR : ALWAYS, &session));
        if (i % 2 == 0)
            expect_atomic_write(session.cq, &session);
    }
    expect_line(server->link, "whole");
}

INTEGRATION_MAIN_WITH_ROLES({"log reader", serve_a_log_reader}, {"word watcher", serve_a_word_watcher})

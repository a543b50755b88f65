// SPDX-License-Identifier: BSD-3-Clause
/* What another thread of the server may see while a client writes: the order of operations and whole words. */
#include "support/memory_server.h"

#include <string.h>

#define RECORDS 400
#define RECORD_SIZE 192
#define POINTER_SIZE 64
#define MEMORY_SIZE (POINTER_SIZE + RECORDS * RECORD_SIZE)
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR

static uint64_t load_word(const char *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

static void check_record(const char *memory, uint64_t number)
{
    check_pattern(memory + POINTER_SIZE + (number - 1) * RECORD_SIZE, RECORD_SIZE, (unsigned)number);
}

/* Follows the pointer at the start of the memory while the client appends; every record up to it must be there. */
static void serve_a_log_reader(struct side *self, const char *argument)
{
    (void)argument;
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, MEMORY_SIZE, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    char port[8];
    accept_next(self, make_ep(self, peer, port), NULL, &greeting);
    int64_t until = deadline();
    for (uint64_t seen = 0; seen < RECORDS;) {
        uint64_t pointer = load_word(memory.ptr);
        CHECK(pointer >= seen && pointer <= RECORDS);
        while (seen < pointer)
            check_record(memory.ptr, ++seen);
        CHECK(now_ms() < until);
    }
    say(self->link, "read all");
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

static void the_pointer_is_never_ahead_of_the_data(void **state)
{
    struct side *self = *state;
    struct server *server = start_server(self, "log reader", "-");
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.sq = 40});
    struct session session = open_session_with(self, server, MEMORY_SIZE, cfg);
    for (uint64_t number = 1; number <= RECORDS; ++number)
        append(&session, number, number % 8 == 0);
    hear(server->link, "read all");
}

/* Watches one word that the client writes over and over: it must always be one byte value eight times. */
static void serve_a_word_watcher(struct side *self, const char *argument)
{
    (void)argument;
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, 4096, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    char port[8];
    accept_next(self, make_ep(self, peer, port), NULL, &greeting);
    int64_t until = deadline();
    uint64_t word;
    do {
        for (int i = 0; i < 1000; ++i) {
            word = load_word(memory.ptr + 8);
            if (word != (word & 0xff) * 0x0101010101010101u)
                check_failed(__FILE__, __LINE__, "torn word %#llx", (unsigned long long)word);
        }
        CHECK(now_ms() < until);
    } while (word != UINT64_MAX);
    say(self->link, "whole");
}

static void write_words_with(struct side *self, bool atomically)
{
    struct server *server = start_server(self, "word watcher", "-");
    struct session session = open_session_with(self, server, 4096, NULL);
    for (unsigned i = 1; i <= 4000; ++i) {
        int value = i == 4000 ? 0xff : (int)(i % 255);
        /* The source of an atomic write is consumed by the call, that of a write is not: use another one each time. */
        char *source = session.local.ptr + i % 8 * 8;
        memset(source, value, 8);
        bool signalled = i % 8 == 0;
        int flags = signalled ? ALWAYS : ON_ERROR;
        if (atomically)
            CHECK_OK(rpma_atomic_write(session.conn, session.remote, 8, source, flags, &session));
        else
            CHECK_OK(rpma_write(session.conn, session.remote, 8, session.local.mr, i % 8 * 8, 8, flags, &session));
        if (signalled && atomically)
            expect_atomic_write(session.cq, &session);
        else if (signalled)
            expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    }
    hear(server->link, "whole");
}

static void atomic_writes_are_never_seen_torn(void **state)
{
    write_words_with(*state, true);
}

static void aligned_words_of_writes_are_never_seen_torn(void **state)
{
    write_words_with(*state, false);
}

static void unsignalled_operations_complete_with_the_next_signalled_one(void **state)
{
    struct side *self = *state;
    const unsigned operations = 1000, every = 10;
    struct session session = open_session(self, 65536, NULL);
    for (unsigned i = 0; i < operations; ++i) {
        bool signalled = i % every == every - 1;
        char *source = session.local.ptr + i * 64;
        fill_pattern(source, 64, i + 1);
        CHECK_OK(rpma_write(session.conn, session.remote, i * 64, session.local.mr, i * 64, 64,
                signalled ? ALWAYS : ON_ERROR, source));
        if (signalled)
            expect_completion(session.cq, IBV_WC_RDMA_WRITE, source);
    }
    struct ibv_wc wc;
    CHECK_RPMA(rpma_cq_get_wc(session.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
    for (unsigned i = 0; i < operations; ++i)
        ask(session.server->link, "check %u 64 %u", i * 64, i + 1);
}

static void a_full_send_queue_refuses_the_next_operation_and_loses_none(void **state)
{
    struct side *self = *state;
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.sq = 8, .cq = 1024});
    struct session session = open_session(self, 65536, cfg);
    unsigned posted = 0;
    int result;
    /* Slots become free only when completions are collected, so the queue fills however fast the device is. */
    while ((result = rpma_write(session.conn, session.remote, posted, session.local.mr, 0, 1, ALWAYS, &session)) == 0) {
        ++posted;
        CHECK(posted < 1024);
    }
    CHECK_RPMA(result, RPMA_E_PROVIDER);
    CHECK(posted >= 8);
    for (unsigned i = 0; i < posted; ++i)
        expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 1, ALWAYS, &posted));
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &posted);
}

static const struct CMUnitTest tests[] = {
        INTEGRATION_TEST(the_pointer_is_never_ahead_of_the_data),
        INTEGRATION_TEST(atomic_writes_are_never_seen_torn),
        INTEGRATION_TEST(aligned_words_of_writes_are_never_seen_torn),
        INTEGRATION_TEST(unsignalled_operations_complete_with_the_next_signalled_one),
        INTEGRATION_TEST(a_full_send_queue_refuses_the_next_operation_and_loses_none),
};

static const struct role roles[] = {
        {"log reader", serve_a_log_reader},
        {"word watcher", serve_a_word_watcher},
        {NULL, NULL},
};

INTEGRATION_MAIN(roles, tests)

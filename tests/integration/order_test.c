// SPDX-License-Identifier: BSD-3-Clause
/* States that another server thread may observe while a client writes: order of operations, and atomicity of words. */
#include "support/memory_server.h"

#include <stdlib.h>
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

/* Follows the pointer at the start of the memory while the client appends. All records before it must be present. */
static void serve_a_log_reader(struct side *self, const char *argument)
{
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

/* The watched bytes start at offset 8 of the memory. */
#define CACHE_LINE 64
#define LARGE 200000
#define WATCHED_SIZE (8 + LARGE)

static void check_words(const char *words, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = load_word(words + i);
        if (word != (word & 0xff) * 0x0101010101010101u)
            check_failed(__FILE__, __LINE__, "torn word %#llx", (unsigned long long)word);
    }
}

/*
 * Watches words that the client writes repeatedly. All eight bytes of a word must always be equal. argument: number of
 * bytes to watch. The last written value is 0xff.
 */
static void serve_a_word_watcher(struct side *self, const char *argument)
{
    size_t size = strtoul(argument, NULL, 10);
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, WATCHED_SIZE, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    char port[8];
    accept_next(self, make_ep(self, peer, port), NULL, &greeting);
    int64_t until = deadline();
    do {
        for (size_t words = 0; words < 1000; words += size / sizeof(uint64_t))
            check_words(memory.ptr + 8, size);
        CHECK(now_ms() < until);
    } while (load_word(memory.ptr + size) != UINT64_MAX); /* the last word watched */
    send_line(self->link, "whole");
}

static int write_value(struct session *session, size_t size, int value, bool atomically, int flags)
{
    /* The source of a write in flight must not change, so the writes alternate between two sources. */
    char *source = session->local.ptr + (value % 2 ? 0 : LARGE);
    memset(source, value, size);
    if (atomically)
        return rpma_atomic_write(session->conn, session->remote, 8, source, flags, session);
    return rpma_write(session->conn, session->remote, 8, session->local.mr, (size_t)(source - session->local.ptr), size,
            flags, session);
}

static void write_words(struct side *self, size_t size, unsigned times, bool atomically)
{
    struct server *server = start_server(self, "word watcher", "%zu", size);
    struct session session = open_session_with(self, server, 2 * LARGE, NULL);
    for (unsigned i = 1; i <= times; ++i) {
        int value = i == times ? 0xff : (int)(i % 254) + 1;
        bool signalled = i % 2 == 0;
        CHECK_OK(write_value(&session, size, value, atomically, signalled ? ALWAYS : ON_ERROR));
        if (signalled && atomically)
            expect_atomic_write(session.cq, &session);
        else if (signalled)
            expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    }
    expect_line(server->link, "whole");
}

INTEGRATION_TEST(atomic_writes_are_never_seen_torn)
{
    write_words(self, sizeof(uint64_t), 10000, true);
}

/* Where the kernel copies between two processes, another thread can observe a partly written word: softrdma(1). */
static void skip_where_the_kernel_copies(void)
{
    const char *path = getenv("SOFTRDMA_TRANSPORT");
    if (path != NULL && strcmp(path, "tcp") != 0)
        skip_because("the local path does not promise it for this memory");
}

INTEGRATION_TEST(aligned_words_of_a_small_write_are_never_seen_torn)
{
    skip_where_the_kernel_copies();
    write_words(self, CACHE_LINE, 10000, false);
}

INTEGRATION_TEST(aligned_words_of_a_large_write_are_never_seen_torn)
{
    skip_where_the_kernel_copies();
    write_words(self, LARGE, 400, false);
}

INTEGRATION_MAIN_WITH_ROLES({"log reader", serve_a_log_reader}, {"word watcher", serve_a_word_watcher})

// SPDX-License-Identifier: BSD-3-Clause
/*
 * A log in remote persistent memory, whose server loses power.
 *   serve ADDRESS PORT PATH     serves the memory at PATH to one client until it is killed
 *   append ADDRESS PORT         appends records and prints each one that is flushed
 *   check PATH COUNT            checks that the memory contains at least the first COUNT records, and no pointer past
 * them A record is written and flushed before the pointer, and the pointer is flushed before the record is
 * acknowledged.
 */
#include "support/memory_server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_SIZE 256
#define RECORDS_OFFSET 4096
#define CAPACITY 100000
#define LOG_SIZE ((size_t)26 * 1024 * 1024)
#define PERSISTENT RPMA_FLUSH_TYPE_PERSISTENT
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR

static void give_up(void *argument, const char *message)
{
    fprintf(stderr, "%s: %s\n", (const char *)argument, message);
    exit(1);
}

static size_t offset_of(uint64_t record)
{
    return RECORDS_OFFSET + record * RECORD_SIZE;
}

static unsigned seed_of(uint64_t record)
{
    return (unsigned)(record % 250 + 1);
}

static void serve(struct side *self, const char *port, const char *path)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = map_region(self, peer, path, LOG_SIZE, USAGE_MEMORY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
    memset(memory.ptr, 0, LOG_SIZE);
    struct greeting greeting = make_greeting(&memory, 1, true);
    struct rpma_ep *ep = NULL;
    CHECK_OK(rpma_ep_listen(peer, self->addr, port, &ep));
    accept_next(self, ep, NULL, &greeting);
    for (;;)
        pause();
}

static void append(struct side *self, const char *addr, const char *port)
{
    struct rpma_peer *peer = make_peer(self);
    struct region source = make_region(self, peer, RECORD_SIZE, USAGE_MEMORY);
    self->addr = addr;
    struct rpma_conn *conn = connect_to(self, peer, port, NULL);
    struct rpma_mr_remote *log = remote_region(self, conn, 0);
    for (uint64_t record = 0; record < CAPACITY; ++record) {
        uint64_t count = record + 1;
        char pointer[sizeof(count)];
        memcpy(pointer, &count, sizeof(count));
        fill_pattern(source.ptr, RECORD_SIZE, seed_of(record));
        CHECK_OK(rpma_write(conn, log, offset_of(record), source.mr, 0, RECORD_SIZE, ON_ERROR, NULL));
        CHECK_OK(rpma_flush(conn, log, offset_of(record), RECORD_SIZE, PERSISTENT, ON_ERROR, NULL));
        CHECK_OK(rpma_atomic_write(conn, log, 0, pointer, ON_ERROR, NULL));
        CHECK_OK(rpma_flush(conn, log, 0, sizeof(pointer), PERSISTENT, RPMA_F_COMPLETION_ALWAYS, &count));
        expect_flush(main_cq(conn), &count);
        printf("acknowledged %llu\n", (unsigned long long)count);
    }
}

static void check(const char *path, uint64_t acknowledged)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    const char *log = mmap(NULL, LOG_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(log != MAP_FAILED);
    uint64_t count;
    memcpy(&count, log, sizeof(count));
    printf("%llu records acknowledged, the pointer shows %llu\n", (unsigned long long)acknowledged,
            (unsigned long long)count);
    CHECK(count >= acknowledged && count <= CAPACITY);
    for (uint64_t record = 0; record < count; ++record)
        check_pattern(log + offset_of(record), RECORD_SIZE, seed_of(record));
}

int main(int argc, char **argv)
{
    check_handle(give_up, argv[0]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct side self = {.addr = argc > 2 ? argv[2] : NULL};
    if (argc == 5 && !strcmp(argv[1], "serve")) {
        serve(&self, argv[3], argv[4]);
    } else if (argc == 4 && !strcmp(argv[1], "append")) {
        self.addr = getenv("RPMA_TEST_ADDR");
        append(&self, argv[2], argv[3]);
    } else if (argc == 4 && !strcmp(argv[1], "check")) {
        check(argv[2], strtoull(argv[3], NULL, 10));
    } else {
        fprintf(stderr, "usage: %s serve ADDRESS PORT PATH | append ADDRESS PORT | check PATH COUNT\n", argv[0]);
        return 2;
    }
    return scope_close(&self.scope) ? 1 : 0;
}

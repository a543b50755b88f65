// SPDX-License-Identifier: BSD-3-Clause
/* A key-value store that is a log in mirrored persistent memory. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <librpma_mirror.h>

#include "../common/output.h"

enum {
    KEYS = 100,
    LOG_OFFSET = 4096,
    PAUSE_US = 200, /* slows the program down for viewers */
};

/* Offset 0 of the set contains the number of valid records. A put writes a record after these, makes it durable, and
 * then stores the new number: a record interrupted by a crash is never valid. */
struct record {
    uint64_t number;
    char key[24];
    char value[24];
    uint64_t sum;
};

struct store {
    struct rpma_mirror *mirror;
    char *memory;
    size_t length;
};

static const char usage[] =
        "Usage: kv-log put SET [--without-flush]\n"
        "       kv-log list SET\n\n"
        "put stores one value after the other, and prints the number of each put that is on all copies in\n"
        "sync. list prints how many puts there are, and the last value of each key. SET is a set file.\n"
        "With --without-flush nothing is made durable, although puts are acknowledged.\n";

static uint64_t sum_of(const struct record *r)
{
    const unsigned char *const bytes = (const unsigned char *)r;
    uint64_t sum = 14695981039346656037ULL;
    for (size_t i = 0; i < offsetof(struct record, sum); ++i)
        sum = (sum ^ bytes[i]) * 1099511628211ULL;
    return sum;
}

static int failed(const char *what)
{
    fprintf(stderr, "kv-log: %s: %s\n", what, rpma_mirror_error_message());
    return 1;
}

/* Reports events. A failed target is evicted from the set, and the program continues with the others. */
static void report_event(void *context, const struct rpma_mirror_event *event)
{
    (void)context;
    if (event->type == RPMA_MIRROR_EVENT_EVICTED)
        printf("copy %u left the set\n", (unsigned)event->copy);
}

static int open_store(const char *set_file, struct store *s)
{
    struct rpma_mirror_cfg *cfg = NULL;
    void *address = NULL;
    if (rpma_mirror_cfg_from_file(set_file, &cfg) != 0)
        return failed("the set file");
    int ret = rpma_mirror_cfg_set_event_function(cfg, report_event, NULL);
    if (ret == 0)
        ret = rpma_mirror_map(cfg, NULL, 0, &address, &s->mirror);
    (void)rpma_mirror_cfg_delete(&cfg);
    if (ret != 0 || rpma_mirror_get_length(s->mirror, &s->length) != 0)
        return failed("opening the set");
    s->memory = address;
    return 0;
}

static uint64_t count_of(const struct store *s)
{
    uint64_t count;
    memcpy(&count, s->memory, sizeof(count));
    return count;
}

static struct record *record_at(const struct store *s, uint64_t index)
{
    return (struct record *)(s->memory + LOG_OFFSET) + index;
}

static int put(struct store *s, uint64_t number, bool flushes)
{
    struct record *const r = record_at(s, number - 1);
    memset(r, 0, sizeof(*r));
    r->number = number;
    (void)snprintf(r->key, sizeof(r->key), "key-%02u", (unsigned)(number % KEYS));
    (void)snprintf(r->value, sizeof(r->value), "value-%llu", (unsigned long long)number);
    r->sum = sum_of(r);
    if (!flushes) {
        memcpy(s->memory, &number, sizeof(number));
        return 0;
    }
    const struct rpma_mirror_range range = {(uint64_t)((char *)r - s->memory), sizeof(*r)};
    const int ret = rpma_mirror_optimized_flush(s->mirror, 0, &range, 1, 0);
    return ret != 0 ? ret : rpma_mirror_atomic_write(s->mirror, 0, 0, number);
}

static int put_many(struct store *s, bool flushes)
{
    const struct timespec pause = {0, PAUSE_US * 1000};
    const uint64_t capacity = (s->length - LOG_OFFSET) / sizeof(struct record);
    puts("open");
    for (uint64_t number = count_of(s) + 1; number <= capacity; ++number) {
        if (put(s, number, flushes) != 0)
            return failed("a put");
        printf("put %llu\n", (unsigned long long)number); /* After this the client relies on it. */
        (void)nanosleep(&pause, NULL);
    }
    puts("the log is full");
    return 0;
}

static int list(struct store *s)
{
    const uint64_t count = count_of(s), capacity = (s->length - LOG_OFFSET) / sizeof(struct record);
    const struct record *last[KEYS] = {NULL};
    for (uint64_t i = 0; i < count && i < capacity; ++i) {
        const struct record *const r = record_at(s, i);
        if (r->number != i + 1 || r->sum != sum_of(r)) {
            fprintf(stderr, "kv-log: record %llu is damaged\n", (unsigned long long)i + 1);
            return 1;
        }
        last[r->number % KEYS] = r;
    }
    printf("puts %llu\n", (unsigned long long)count);
    for (int key = 0; key < KEYS; ++key)
        if (last[key] != NULL)
            printf("%s %s\n", last[key]->key, last[key]->value);
    return 0;
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    const bool puts_values = argc >= 3 && strcmp(argv[1], "put") == 0;
    const bool flushes = argc == 3;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (!(puts_values && (flushes || (argc == 4 && strcmp(argv[3], "--without-flush") == 0))) &&
            !(argc == 3 && strcmp(argv[1], "list") == 0)) {
        fputs(usage, stderr);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    struct store s = {NULL, NULL, 0};
    int status = open_store(argv[2], &s);
    if (status != 0)
        return status;
    status = puts_values ? put_many(&s, flushes) : list(&s);
    if (rpma_mirror_unmap(&s.mirror) != 0 && status == 0)
        status = failed("closing the set");
    return status;
}

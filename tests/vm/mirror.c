// SPDX-License-Identifier: BSD-3-Clause
/*
 * The writer of a mirrored set whose targets, copies 1 and 2, are in persistent memory of two guests.
 *   mirror SET KILL RESTART PROMOTE
 * KILL and RESTART are commands that end the second target and start it again; PROMOTE takes the set to the other
 * guest.
 */
#include <librpma_mirror.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES 8
#define STRIDE 8192
#define ROUNDS 100

static void check(int line, const char *what, int result, int expected)
{
    if (result == expected)
        return;
    fprintf(stderr, "line %d: %s: %d instead of %d: %s\n", line, what, result, expected, rpma_mirror_error_message());
    exit(1);
}

#define CHECK(call, expected) check(__LINE__, #call, (int)(call), (int)(expected))

static void run(const char *command)
{
    printf("%s\n", command);
    CHECK(system(command), 0);
}

static struct rpma_mirror_state state_of(struct rpma_mirror *mirror)
{
    struct rpma_mirror_state state = {.size = sizeof(state)};
    CHECK(rpma_mirror_get_state(mirror, &state), 0);
    return state;
}

/* Ranges that do not touch each other, and then their number with one store that is atomic. */
static int put(struct rpma_mirror *mirror, char *memory, uint64_t number)
{
    struct rpma_mirror_range ranges[RANGES];
    for (size_t i = 0; i < RANGES; ++i) {
        ranges[i] = (struct rpma_mirror_range){(i + 1) * STRIDE + number % 64 * 64, 64};
        memset(memory + ranges[i].offset, (int)(number % 255) + 1, ranges[i].length);
    }
    const int ret = rpma_mirror_optimized_flush(mirror, 0, ranges, RANGES, 0);
    return ret != 0 ? ret : rpma_mirror_publish8(mirror, 0, 0, number);
}

static void put_many(struct rpma_mirror *mirror, char *memory, uint64_t *number)
{
    for (int i = 0; i < ROUNDS; ++i)
        CHECK(put(mirror, memory, ++*number), 0);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: mirror SET KILL RESTART PROMOTE\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rpma_mirror_cfg *cfg = NULL;
    struct rpma_mirror *mirror = NULL;
    void *memory = NULL;
    uint64_t number = 0;
    CHECK(rpma_mirror_cfg_from_file(argv[1], &cfg), 0);
    CHECK(rpma_mirror_create(cfg), 0);
    CHECK(rpma_mirror_map(cfg, NULL, 0, &memory, &mirror), 0);
    for (unsigned copy = 1; copy <= 2; ++copy)
        CHECK(state_of(mirror).copies[copy].level, RPMA_MIRROR_LEVEL_NATIVE_FLUSH);
    printf("both targets are persistent memory, which their devices flush natively\n");

    put_many(mirror, memory, &number);
    const struct rpma_mirror_range all = {0, (RANGES + 1) * STRIDE};
    enum rpma_mirror_verify_level level = RPMA_MIRROR_VERIFY_NONE;
    CHECK(rpma_mirror_optimized_flush_and_verify(mirror, 0, &all, 1, 0, &level, NULL), 0);
    run(argv[2]);
    put_many(mirror, memory, &number);
    CHECK(state_of(mirror).in_sync, 3);
    printf("the second target has left the set, and the writer went on\n");

    run(argv[3]);
    CHECK(rpma_mirror_resync(mirror, 2, NULL), 0);
    put_many(mirror, memory, &number);
    CHECK(state_of(mirror).in_sync, 7);
    struct rpma_mirror_verify_report report = {.size = sizeof(report)};
    CHECK(rpma_mirror_verify(mirror, 2, NULL, &report), 0);
    CHECK(report.different, 0);
    printf("the second target is in sync again\n");

    run(argv[4]);
    CHECK(put(mirror, memory, number + 1), RPMA_MIRROR_E_FENCED);
    printf("the other guest has the set, and this writer is fenced after %llu puts\n", (unsigned long long)number);
    CHECK(rpma_mirror_unmap(&mirror), RPMA_MIRROR_E_FENCED);
    CHECK(rpma_mirror_cfg_delete(&cfg), 0);
    return 0;
}

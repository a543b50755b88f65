// SPDX-License-Identifier: BSD-3-Clause
/* Executes the SNIA actions on a mirrored set one by one, and repairs an unreadable page while the program runs. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <librpma_mirror.h>

#include "../common/output.h"

enum {
    PAGE = 4096,
    PAGES = 3,
    BROKEN_PAGE = 8,
};

struct steps {
    struct rpma_mirror *mirror;
    char *memory;
    double begun;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Prints the start and end of a step, by which the packets of a trace are counted. */
static int end_step(struct steps *s, const char *name, int code)
{
    if (code != 0) {
        fprintf(stderr, "steps: %s: %s\n", name, rpma_mirror_error_message());
        return 1;
    }
    printf("%.6f %.6f %s\n", s->begun, now(), name);
    s->begun = now();
    return 0;
}

static int map(struct steps *s, const struct rpma_mirror_cfg *cfg)
{
    void *address = NULL;
    const int code = rpma_mirror_map(cfg, NULL, 0, &address, &s->mirror);
    s->memory = address;
    return end_step(s, "MAP", code);
}

/* One call makes three separate ranges durable on all copies. */
static int flush(struct steps *s)
{
    struct rpma_mirror_range ranges[PAGES];
    for (unsigned i = 0; i < PAGES; ++i) {
        ranges[i].offset = (uint64_t)(i + 1) * 2 * PAGE;
        ranges[i].length = 64;
        memset(s->memory + ranges[i].offset, 'a' + (int)i, ranges[i].length);
    }
    return end_step(s, "OPTIMIZED_FLUSH", rpma_mirror_optimized_flush(s->mirror, 0, ranges, PAGES, 0));
}

static int publish(struct steps *s)
{
    return end_step(s, "atomic_write", rpma_mirror_atomic_write(s->mirror, 0, 0, PAGES));
}

static int flush_and_verify(struct steps *s)
{
    const struct rpma_mirror_range all = {(uint64_t)BROKEN_PAGE * PAGE, PAGE};
    enum rpma_mirror_verify_level level = RPMA_MIRROR_VERIFY_NONE;
    memset(s->memory + all.offset, 'p', all.length);
    return end_step(s, "OPTIMIZED_FLUSH_AND_VERIFY",
            rpma_mirror_optimized_flush_and_verify(s->mirror, 0, &all, 1, 0, &level, NULL));
}

/* Removes the read permission of a page, which readers cannot distinguish from poisoned memory. */
static int find_error(struct steps *s)
{
    struct rpma_mirror_error error;
    size_t found = 1;
    char *const page = s->memory + BROKEN_PAGE * PAGE;
    if (mprotect(page, PAGE, PROT_NONE) != 0)
        return 1;
    const int code = rpma_mirror_check(s->mirror, 0, 0, (uint64_t)2 * BROKEN_PAGE * PAGE, &error, &found);
    if (code == 0 && (found != 1 || error.offset != BROKEN_PAGE * PAGE || !error.precise || !error.live)) {
        fprintf(stderr, "steps: the page that cannot be read was not found\n");
        return 1;
    }
    return end_step(s, "GET_ERROR_INFO", code);
}

/* The error is precise, contained and live, so the program rewrites the page from another copy and continues. */
static int repair(struct steps *s)
{
    char *const page = s->memory + BROKEN_PAGE * PAGE;
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
        return 1;
    memset(page, 0, PAGE);
    const int code = rpma_mirror_repair_range(s->mirror, BROKEN_PAGE * PAGE, PAGE, RPMA_MIRROR_ALL_COPIES);
    for (unsigned i = 0; code == 0 && i < PAGE; ++i) {
        if (page[i] != 'p') {
            fprintf(stderr, "steps: byte %u of the page differs from the flushed data\n", i);
            return 1;
        }
    }
    return end_step(s, "repair", code);
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    struct rpma_mirror_cfg *cfg = NULL;
    if (argc != 2) {
        fprintf(stderr, "Usage: steps SET\n");
        return 2;
    }
    if (rpma_mirror_cfg_from_file(argv[1], &cfg) != 0) {
        fprintf(stderr, "steps: %s\n", rpma_mirror_error_message());
        return 1;
    }
    struct steps s = {NULL, NULL, now()};
    int failed = map(&s, cfg) || flush(&s) || publish(&s) || flush_and_verify(&s) || find_error(&s) || repair(&s);
    if (s.mirror != NULL && rpma_mirror_unmap(&s.mirror) != 0)
        failed = 1;
    if (!failed)
        failed = end_step(&s, "UNMAP", 0);
    rpma_mirror_cfg_delete(&cfg);
    return failed;
}

// SPDX-License-Identifier: BSD-3-Clause
/*
 * The writer of a mirrored set whose targets are in persistent memory of guests.
 *   mirror lose SET KILL RESTART PROMOTE
 * The targets are copies 1 and 2. The commands KILL and RESTART stop and start the second one; PROMOTE moves the set to
 * the other guest. In between the kernel poisons pages of the local copy, as for a hardware error, and the program
 * repairs them.
 *   mirror append SET ACKNOWLEDGED SOURCE
 * The target is copy 1. Opens the set, or creates it if ACKNOWLEDGED, the number of puts before the power cut, is 0.
 * SOURCE is `local` or `target`: the copy that must be selected as the newest. Checks that it contains all acknowledged
 * puts. Then puts until the next power cut, and prints the number of each acknowledged put.
 */
#include <librpma_mirror.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define LENGTH (16 * 1024 * 1024)
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

/* Returns whether the device of this guest is softrdma, which pins no pages. */
static bool is_on_softrdma(void)
{
    const char *const guest = getenv("RPMA_VM_GUEST"), *const on_softrdma = getenv("RPMA_VM_SOFTRDMA");
    return guest != NULL && on_softrdma != NULL && strcmp(guest, on_softrdma) == 0;
}

/* Writes separate ranges, and then their number with an atomic store. */
static int put(struct rpma_mirror *mirror, char *memory, uint64_t number)
{
    struct rpma_mirror_range ranges[RANGES];
    for (size_t i = 0; i < RANGES; ++i) {
        ranges[i] = (struct rpma_mirror_range){(i + 1) * STRIDE + number % 64 * 64, 64};
        memset(memory + ranges[i].offset, (int)(number % 255) + 1, ranges[i].length);
    }
    const int ret = rpma_mirror_optimized_flush(mirror, 0, ranges, RANGES, 0);
    return ret != 0 ? ret : rpma_mirror_atomic_write(mirror, 0, 0, number);
}

static void put_many(struct rpma_mirror *mirror, char *memory, uint64_t *number)
{
    for (int i = 0; i < ROUNDS; ++i)
        CHECK(put(mirror, memory, ++*number), 0);
}

/* The pointer is that of the last acknowledged put or of the next one, which may be incomplete. */
static uint64_t find_puts(const char *memory, uint64_t acknowledged)
{
    uint64_t number = 0;
    memcpy(&number, memory, sizeof(number));
    CHECK(number - acknowledged <= 1, true);
    /* The 64th put after this one reuses its ranges. */
    for (uint64_t put = number < 63 ? 1 : number - 62; put <= number; ++put)
        for (size_t i = 0; i < (size_t)RANGES * 64; ++i)
            CHECK(memory[(i / 64 + 1) * STRIDE + put % 64 * 64 + i % 64], (char)(put % 255 + 1));
    return number;
}

static sigjmp_buf bad_read;
static siginfo_t signal_of_read;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    signal_of_read = *info;
    siglongjmp(bad_read, 1);
}

/* Returns whether reading the page raises SIGBUS for lost memory, and not for the end of a file. */
static bool is_poisoned(char *page)
{
    if (sigsetjmp(bad_read, 1) == 0) {
        *(volatile char *)page;
        return false;
    }
    CHECK(signal_of_read.si_code, BUS_MCEERR_AR);
    CHECK((char *)signal_of_read.si_addr == page, true);
    return true;
}

static void poison(char *page)
{
    /* The signal may arrive immediately. EBUSY: the page is poisoned, but stays mapped because the device has pinned
     * it. */
    if (sigsetjmp(bad_read, 1) == 0 && madvise(page, PAGE, MADV_HWPOISON) != 0)
        CHECK(errno, EBUSY);
    CHECK(is_poisoned(page), true);
}

static void check_error(struct rpma_mirror_error error, uint64_t page)
{
    CHECK(error.copy, 0);
    CHECK(error.kind, RPMA_MIRROR_ERROR_MEDIA);
    CHECK(error.code, RPMA_MIRROR_E_MEDIA);
    CHECK(error.offset, page);
    CHECK(error.length, PAGE);
    CHECK(error.precise && error.contained && error.live, true);
}

/* Checks the unreadable pages of the local copy, which the error information must contain, too. */
static void check_bad_pages(struct rpma_mirror *mirror, const uint64_t *pages, size_t count)
{
    struct rpma_mirror_error found[4], known[4];
    size_t n = 4, known_n = 4;
    CHECK(rpma_mirror_check(mirror, 0, 0, LENGTH, found, &n), 0);
    CHECK(rpma_mirror_get_error_info(mirror, known, &known_n), 0);
    CHECK(n, count);
    CHECK(known_n, count);
    for (size_t i = 0; i < count; ++i) {
        check_error(found[i], pages[i]);
        check_error(known[i], pages[i]);
    }
}

static struct rpma_mirror_event next_event(struct rpma_mirror *mirror, enum rpma_mirror_event_type type)
{
    struct rpma_mirror_event event = {.size = sizeof(event)};
    CHECK(rpma_mirror_next_event(mirror, &event), 0);
    CHECK(event.type, type);
    return event;
}

static void verify(struct rpma_mirror *mirror, unsigned copy)
{
    struct rpma_mirror_verify_report report = {.size = sizeof(report)};
    CHECK(rpma_mirror_verify(mirror, copy, NULL, &report), 0);
    CHECK(report.differing_segments, 0);
}

/* Poisons the first page of a range, and a page behind all ranges, while the devices have pinned the local copy. */
static void repair_poisoned_pages(struct rpma_mirror *mirror, char *memory, uint64_t *number)
{
    const uint64_t pages[] = {STRIDE, LENGTH - PAGE};
    char before[2][PAGE], back[PAGE];
    struct rpma_mirror_event event = {.size = sizeof(event)};
    while (rpma_mirror_next_event(mirror, &event) == 0)
        event.size = sizeof(event);
    check_bad_pages(mirror, NULL, 0);
    const struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL), 0);
    for (int i = 0; i < 2; ++i) {
        memset(memory + pages[i] + PAGE / 2, 'a' + i, PAGE / 2);
        CHECK(rpma_mirror_sync(mirror, 0, pages[i], PAGE, 0), 0);
        memcpy(before[i], memory + pages[i], PAGE);
        poison(memory + pages[i]);
    }
    check_bad_pages(mirror, pages, 2);
    check_bad_pages(mirror, pages, 2);
    for (int i = 0; i < 2; ++i)
        check_error(next_event(mirror, RPMA_MIRROR_EVENT_MEDIA).error, pages[i]);

    CHECK(rpma_mirror_repair_range(mirror, pages[0] + 1, 1, RPMA_MIRROR_ALL_COPIES), 0);
    CHECK(is_poisoned(memory + pages[0]), false);
    CHECK(memcmp(memory + pages[0], before[0], PAGE), 0);
    check_bad_pages(mirror, pages + 1, 1);
    /* A device of the kernel cannot register the local copy before all of it is repaired: it would send the pinned
     * pages. */
    if (!is_on_softrdma())
        CHECK(put(mirror, memory, *number + 1), RPMA_MIRROR_E_MEDIA);
    CHECK(rpma_mirror_repair_range(mirror, pages[1], PAGE, 2), 0);
    check_bad_pages(mirror, NULL, 0);
    for (int i = 0; i < 2; ++i)
        CHECK(next_event(mirror, RPMA_MIRROR_EVENT_REPAIRED).copy, 0);
    CHECK(memcmp(memory + pages[1], before[1], PAGE), 0);

    put_many(mirror, memory, number);
    memset(memory + pages[1], 'c', PAGE);
    CHECK(rpma_mirror_sync(mirror, 0, pages[1], PAGE, 0), 0);
    for (unsigned copy = 1; copy <= 2; ++copy) {
        for (int i = 0; i < 2; ++i) {
            CHECK(rpma_mirror_read(mirror, 0, copy, back, pages[i], PAGE), 0);
            CHECK(memcmp(back, memory + pages[i], PAGE), 0);
        }
        verify(mirror, copy);
    }
    CHECK(state_of(mirror).in_sync, 7);
}

static void lose(const struct rpma_mirror_cfg *cfg, char **commands)
{
    struct rpma_mirror *mirror = NULL;
    void *memory = NULL;
    uint64_t number = 0;
    CHECK(rpma_mirror_create(cfg), 0);
    CHECK(rpma_mirror_map(cfg, NULL, 0, &memory, &mirror), 0);
    for (unsigned copy = 1; copy <= 2; ++copy)
        CHECK(state_of(mirror).copies[copy].level, RPMA_MIRROR_LEVEL_NATIVE_FLUSH);
    printf("both targets are persistent memory, which their devices flush natively\n");

    put_many(mirror, memory, &number);
    const struct rpma_mirror_range all = {0, (RANGES + 1) * STRIDE};
    enum rpma_mirror_verify_level level = RPMA_MIRROR_VERIFY_NONE;
    CHECK(rpma_mirror_optimized_flush_and_verify(mirror, 0, &all, 1, 0, &level, NULL), 0);
    run(commands[0]);
    put_many(mirror, memory, &number);
    CHECK(state_of(mirror).in_sync, 3);
    printf("the second target has left the set, and the writer continued\n");

    run(commands[1]);
    CHECK(rpma_mirror_resync(mirror, 2, NULL), 0);
    put_many(mirror, memory, &number);
    CHECK(state_of(mirror).in_sync, 7);
    verify(mirror, 2);
    printf("the second target is in sync again\n");

    repair_poisoned_pages(mirror, memory, &number);
    printf("two pages that the kernel had poisoned are repaired, and the writer continued\n");

    run(commands[2]);
    CHECK(put(mirror, memory, number + 1), RPMA_MIRROR_E_FENCED);
    printf("the other guest has the set, and this writer is fenced after %llu puts\n", (unsigned long long)number);
    CHECK(rpma_mirror_unmap(&mirror), RPMA_MIRROR_E_FENCED);
}

static void append(const struct rpma_mirror_cfg *cfg, uint64_t acknowledged, bool stale)
{
    struct rpma_mirror *mirror = NULL;
    void *memory = NULL;
    struct rpma_mirror_recovery_report report = {.size = sizeof(report)};
    if (acknowledged == 0)
        CHECK(rpma_mirror_create(cfg), 0);
    CHECK(rpma_mirror_map(cfg, NULL, 0, &memory, &mirror), 0);
    CHECK(rpma_mirror_get_recovery_report(mirror, &report), 0);
    CHECK(report.reason, stale ? RPMA_MIRROR_SOURCE_TARGET_NEWEST : RPMA_MIRROR_SOURCE_LOCAL_NEWEST);
    uint64_t number = find_puts(memory, acknowledged);
    verify(mirror, 1);
    /* Device DAX cannot provide other pages, so the same pages are rewritten. */
    CHECK(rpma_mirror_repair_range(mirror, 0, PAGE, 1), 0);
    CHECK(find_puts(memory, acknowledged), number);
    for (;;) {
        CHECK(put(mirror, memory, ++number), 0);
        printf("acknowledged %llu\n", (unsigned long long)number);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rpma_mirror_cfg *cfg = NULL;
    if (argc > 2)
        CHECK(rpma_mirror_cfg_from_file(argv[2], &cfg), 0);
    if (argc == 6 && !strcmp(argv[1], "lose")) {
        lose(cfg, argv + 3);
    } else if (argc == 5 && !strcmp(argv[1], "append")) {
        append(cfg, strtoull(argv[3], NULL, 10), !strcmp(argv[4], "target"));
    } else {
        fputs("usage: mirror lose SET KILL RESTART PROMOTE | append SET ACKNOWLEDGED local|target\n", stderr);
        return 2;
    }
    CHECK(rpma_mirror_cfg_delete(&cfg), 0);
    return 0;
}

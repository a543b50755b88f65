/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Either side of a busy pool is killed or stopped at a random moment. Every call must end, acknowledged data must be in
 * the part, and no resource may leak. RPMEM_KILL_ROUNDS is the number of rounds (default 5), RPMEM_SEED the seed of the
 * moments.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "support.h"

enum {
    LANES = 2,
    SLOTS = 512,
    SLOT_SIZE = 64,
    BATCH = 8,
    TIMEOUT_MS = 2000,
    HANG_LIMIT_S = 90,
};

/* State shared with the writer process: the numbers that it knows to be durable. */
struct progress {
    _Atomic uint64_t acknowledged[LANES];
    atomic_bool open;
    atomic_bool enough;
};

static struct progress *shared;
static const char *own_program;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t slot_offset(unsigned lane, uint64_t number)
{
    return HEADER_SIZE + ((size_t)lane * SLOTS + number % SLOTS) * SLOT_SIZE;
}

static RPMEMpool *open_retrying(unsigned limit_ms)
{
    RPMEMpool *opened = NULL;
    for (unsigned i = 0; i < limit_ms; ++i) {
        unsigned lanes = LANES;
        opened = rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, NULL);
        if (opened != NULL || errno != EBUSY)
            break;
        usleep(1000);
    }
    return opened;
}

struct writer {
    RPMEMpool *pool;
    unsigned lane;
    int error;
};

static int write_slots(struct writer *w, uint64_t from, unsigned count)
{
    for (uint64_t i = from; i < from + count; ++i) {
        uint64_t slot[SLOT_SIZE / sizeof(uint64_t)];
        for (size_t word = 0; word < SLOT_SIZE / sizeof(*slot); ++word)
            slot[word] = i;
        memcpy(pool_memory + slot_offset(w->lane, i), slot, sizeof(slot));
        if (count > 1 && rpmem_flush(w->pool, slot_offset(w->lane, i), SLOT_SIZE, w->lane, 0) != 0)
            return -1;
    }
    if (count > 1)
        return rpmem_drain(w->pool, w->lane, 0);
    const size_t offset = slot_offset(w->lane, from);
    return from % 5 == 0 ? rpmem_deep_persist(w->pool, offset, SLOT_SIZE, w->lane)
                         : rpmem_persist(w->pool, offset, SLOT_SIZE, w->lane, 0);
}

static void *write_until_it_ends(void *argument)
{
    struct writer *const w = argument;
    while (!shared->enough) {
        const uint64_t next = shared->acknowledged[w->lane] + 1;
        const unsigned count = next % 3 == 0 ? BATCH : 1;
        if (write_slots(w, next, count) != 0) {
            w->error = errno;
            break;
        }
        shared->acknowledged[w->lane] = next + count - 1;
    }
    return NULL;
}

/* Returns the error that ended the work, or 0 if it was requested to end. */
static int work(RPMEMpool *opened)
{
    struct writer writers[LANES];
    pthread_t threads[LANES];
    shared->open = true;
    for (unsigned lane = 0; lane < LANES; ++lane) {
        writers[lane] = (struct writer){.pool = opened, .lane = lane};
        assert_int_equal(pthread_create(&threads[lane], NULL, write_until_it_ends, &writers[lane]), 0);
    }
    int error = 0;
    for (unsigned lane = 0; lane < LANES; ++lane) {
        pthread_join(threads[lane], NULL);
        error = writers[lane].error != 0 ? writers[lane].error : error;
    }
    return error;
}

/* Checks that each slot contains the last number that was written to it, or a later one. */
static void expect_acknowledged(void)
{
    static uint64_t part[LANES * SLOTS][SLOT_SIZE / sizeof(uint64_t)];
    read_part("pool.part", HEADER_SIZE, part, sizeof(part));
    for (unsigned lane = 0; lane < LANES; ++lane) {
        const uint64_t last = shared->acknowledged[lane];
        for (uint64_t number = last > SLOTS ? last - SLOTS + 1 : 1; number <= last; ++number) {
            const uint64_t *const slot = part[lane * SLOTS + number % SLOTS];
            for (size_t word = 0; word < SLOT_SIZE / sizeof(*slot); ++word)
                if (slot[word] < number || slot[word] % SLOTS != number % SLOTS)
                    fail_msg("lane %u: %ju was acknowledged, %ju is there", lane, (uintmax_t)number,
                            (uintmax_t)slot[word]);
        }
    }
}

enum action {
    KILL_TARGET,
    STOP_TARGET,
    PAUSE_TARGET,
    KILL_WRITER,
    PAUSE_WRITER,
    ACTIONS
};

static bool has_daemon(void)
{
    struct stat facts;
    return stat(in_directory("pid"), &facts) == 0 && facts.st_size > 0;
}

struct blow {
    enum action action;
    unsigned after_us;
    pid_t daemon;
};

/* Starts at the beginning of the session, so the fault sometimes interrupts the opening. */
static void *strike_target(void *argument)
{
    struct blow *const b = argument;
    while (!has_daemon())
        usleep(100);
    b->daemon = daemon_pid();
    usleep(b->after_us);
    kill(b->daemon, b->action == KILL_TARGET ? SIGKILL : SIGSTOP);
    if (b->action == PAUSE_TARGET) {
        usleep(50000 + b->after_us);
        kill(b->daemon, SIGCONT);
        usleep(50000);
        shared->enough = true;
    }
    return NULL;
}

/* Longest time from the fault to the end of the last call. */
static double max_end_s;

static void strike_the_target(enum action action, unsigned after_us)
{
    struct blow b = {.action = action, .after_us = after_us};
    pthread_t striker;
    unlink(in_directory("pid"));
    assert_int_equal(pthread_create(&striker, NULL, strike_target, &b), 0);
    const double start = now_s();
    RPMEMpool *const opened = open_retrying(1);
    int error = opened == NULL ? errno : work(opened);
    const double end = now_s() - start - after_us * 1e-6;
    if (end > max_end_s)
        max_end_s = end;
    if (opened != NULL && rpmem_close(opened) != 0 && error == 0)
        error = errno;
    pthread_join(striker, NULL);
    if (action == PAUSE_TARGET)
        assert_int_equal(error, 0);
    else
        assert_int_not_equal(error, 0);
    expect_end_of(b.daemon);
}

/* Runs in a separate process, because it is killed. */
static int run_writer(const char *file)
{
    const int fd = open(file, O_RDWR);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED || make_memory(NULL) != 0)
        return 1;
    RPMEMpool *const opened = open_retrying(1);
    if (opened == NULL || work(opened) != 0 || rpmem_close(opened) != 0) {
        fprintf(stderr, "%s\n", rpmem_errormsg());
        return 1;
    }
    return 0;
}

static void strike_the_writer(enum action action, unsigned after_us, const char *file)
{
    unlink(in_directory("pid"));
    const pid_t writer = fork();
    if (writer == 0) {
        execl(own_program, own_program, "writer", file, (char *)NULL);
        _exit(127);
    }
    if (action == PAUSE_WRITER)
        while (!shared->open)
            usleep(1000);
    usleep(after_us);
    kill(writer, action == KILL_WRITER ? SIGKILL : SIGSTOP);
    if (action == PAUSE_WRITER) {
        usleep(200000);
        kill(writer, SIGCONT);
        usleep(20000);
        shared->enough = true;
    }
    int status = 0;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    if (action == PAUSE_WRITER)
        assert_int_equal(status, 0);
    /* The daemon ends only because of the fault. */
    if (has_daemon())
        expect_end_of(daemon_pid());
}

TEST(every_blow_is_survived)
{
    const unsigned rounds = number_from("RPMEM_KILL_ROUNDS", 5);
    const unsigned seed = number_from("RPMEM_SEED", (unsigned)time(NULL));
    print_message("RPMEM_SEED=%u\n", seed);
    srandom(seed);
    char file[4096];
    snprintf(file, sizeof(file), "%s/progress", getenv("RPMEM_TEST_DIR"));
    const int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, sizeof(*shared)), 0);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    close(fd);
    assert_int_equal(rpmem_close(create_pool("pool.set", &some_attributes)), 0);
    const struct resources before = resources_of(getpid());
    unsigned counts[ACTIONS] = {0};
    for (unsigned round = 0; round < rounds; ++round) {
        const enum action action = (enum action)(round % ACTIONS);
        const unsigned after_us = (unsigned)random() % 150000;
        shared->open = shared->enough = false;
        alarm(HANG_LIMIT_S);
        if (action <= PAUSE_TARGET)
            strike_the_target(action, after_us);
        else
            strike_the_writer(action, after_us, file);
        alarm(0);
        expect_acknowledged();
        expect_no_leak(&before);
        ++counts[action];
    }
    print_message("target killed %u, stopped %u, paused %u times; writer killed %u, paused %u times; %ju and %ju slots "
                  "acknowledged; at most %.1f s from a blow to the end of the calls\n",
            counts[KILL_TARGET], counts[STOP_TARGET], counts[PAUSE_TARGET], counts[KILL_WRITER], counts[PAUSE_WRITER],
            (uintmax_t)shared->acknowledged[0], (uintmax_t)shared->acknowledged[1], max_end_s);
}

GROUP_FIXTURE(make_memory, NULL)

int main(int argc, char **argv)
{
    char timeout[16];
    snprintf(timeout, sizeof(timeout), "%d", TIMEOUT_MS);
    setenv("RPMEM_OP_TIMEOUT_MS", timeout, 1);
    own_program = argv[0];
    if (argc == 3)
        return run_writer(argv[2]);
    return run_registered_tests();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool on two targets, which several threads write to while one of them is lost. */
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
    LANES = 4,
    ROUNDS = 400
};
static const char *const names[] = {"a", "b"};
static const char both[] = "first,second";

static RPMEMpool *pool;
static atomic_int failures, done;

static char *path_of(const char *target, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s/%s", getenv("RPMEM_TEST_DIR"), target, name);
    return path;
}

static int write_sets(void **state)
{
    setenv("RPMEM_OP_TIMEOUT_MS", "5000", 1);
    for (size_t i = 0; i < 2; ++i) {
        mkdir(path_of(names[i], ""), 0700);
        char part[4096];
        snprintf(part, sizeof(part), "%s", path_of(names[i], "part"));
        FILE *const set = fopen(path_of(names[i], "pool.set"), "w");
        if (set == NULL)
            return -1;
        fprintf(set, "PMEMPOOLSET\n16M %s\n", part);
        fclose(set);
    }
    return make_memory(state);
}

static int forget(void **state)
{
    return rpmem_remove(both, "pool.set", RPMEM_REMOVE_FORCE);
}

static RPMEMpool *open_both(void)
{
    unsigned lanes = LANES;
    RPMEMpool *const opened = must(rpmem_open(both, "pool.set", pool_memory, POOL_SIZE, &lanes, NULL));
    assert_int_equal(lanes, LANES);
    return opened;
}

static void create_both(void)
{
    unsigned lanes = LANES;
    pool = must(rpmem_create(both, "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes));
    assert_int_equal(lanes, LANES);
}

static void read_copy(const char *target, char *to)
{
    const int fd = open(path_of(target, "part"), O_RDONLY);
    assert_int_equal(pread(fd, to, POOL_SIZE, 0), POOL_SIZE);
    close(fd);
}

/* Compares without the header, which contains the time of its creation. */
static void expect_copy(const char *target)
{
    static char copy[8 * 1024 * 1024];
    read_copy(target, copy);
    assert_memory_equal(copy + HEADER_SIZE, pool_memory + HEADER_SIZE, POOL_SIZE - HEADER_SIZE);
}

/* Each thread has its own part of the pool, and its own lane. */
static void *write_much(void *lane_number)
{
    const size_t lane = (size_t)lane_number, part = (POOL_SIZE - HEADER_SIZE) / LANES / 4096 * 4096;
    for (size_t round = 0; round < ROUNDS; ++round) {
        const size_t at = HEADER_SIZE + lane * part + round * 5000 % (part - 300);
        memset(pool_memory + at, (int)(round + lane) | 1, 300);
        const int result = round % 3 == 0   ? rpmem_persist(pool, at, 300, (unsigned)lane, 0)
                           : round % 3 == 1 ? rpmem_deep_persist(pool, at, 300, (unsigned)lane)
                                            : rpmem_flush(pool, at, 300, (unsigned)lane, 0);
        failures += result != 0;
        ++done;
    }
    failures += rpmem_drain(pool, (unsigned)lane, 0) != 0;
    return NULL;
}

static pid_t pid_of(const char *name)
{
    int pid = 0;
    char file_name[16];
    snprintf(file_name, sizeof(file_name), "pid-%s", name);
    FILE *const file = open_file(file_name);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

/* Writes with threads, and kills the daemon of a target at the same time. */
static void write_with_threads(const char *killed)
{
    pthread_t threads[LANES];
    failures = 0;
    done = 0;
    for (size_t lane = 0; lane < LANES; ++lane)
        assert_int_equal(pthread_create(&threads[lane], NULL, write_much, (void *)lane), 0);
    while (done < LANES * ROUNDS / 3)
        usleep(100);
    kill(pid_of(killed), SIGKILL);
    for (size_t lane = 0; lane < LANES; ++lane)
        pthread_join(threads[lane], NULL);
    assert_int_equal(failures, 0);
}

DEFINE_TEST(either_may_be_lost, NULL, forget)
{
    create_both();
    assert_int_equal(rpmem_close(pool), 0);
    for (size_t i = 0; i < 2; ++i) {
        pool = open_both();
        write_with_threads(names[i]);
        /* Reads from the remaining replica. */
        char bytes[64];
        assert_int_equal(rpmem_read(pool, bytes, HEADER_SIZE, sizeof(bytes), 0), 0);
        assert_memory_equal(bytes, pool_memory + HEADER_SIZE, sizeof(bytes));
        assert_int_equal(rpmem_close(pool), 0);
        expect_copy(names[1 - i]);
        /* The next opening resynchronizes the other replica. */
        assert_int_equal(rpmem_close(open_both()), 0);
        expect_copy(names[i]);
    }
}

DEFINE_TEST(attributes_are_those_of_both, NULL, forget)
{
    create_both();
    struct rpmem_pool_attr other = {.signature = "RPMEMTS", .major = 7}, found;
    kill(pid_of("b"), SIGKILL);
    assert_int_equal(rpmem_set_attr(pool, &other), 0);
    assert_fails(rpmem_set_attr(pool, NULL), EINVAL);
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(rpmem_close(open_both()), 0);
    static char header_a[8 * 1024 * 1024], header_b[8 * 1024 * 1024];
    read_copy("a", header_a);
    read_copy("b", header_b);
    /* Signature, versions, features. */
    assert_memory_equal(header_a, header_b, 40);
    unsigned lanes = 1;
    pool = must(rpmem_open(both, "pool.set", pool_memory, POOL_SIZE, &lanes, &found));
    assert_int_equal(found.major, 7);
    assert_int_equal(rpmem_close(pool), 0);
}

DEFINE_TEST(what_is_no_list_is_refused, NULL, forget)
{
    unsigned lanes = 1;
    for (size_t i = 0; i < 5; ++i) {
        static const char *const bad[] = {"a,", ",a", "a,,b", "a,b,a", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"};
        assert_refused(rpmem_open(bad[i], "pool.set", pool_memory, POOL_SIZE, &lanes, NULL), EINVAL);
        assert_fails(rpmem_remove(bad[i], "pool.set", 0), EINVAL);
    }
    /* If a pool could be created on only one target, no file remains. */
    unlink(path_of("b", "pool.set"));
    assert_refused(rpmem_create(both, "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes), ENOENT);
    assert_int_equal(access(path_of("a", "part"), F_OK), -1);
    assert_int_equal(write_sets(state), 0);
}

DEFINE_TEST(a_removal_fails_with_the_error_of_the_target, NULL, forget)
{
    create_both();
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(truncate(path_of("b", "pool.set"), 1), 0);
    assert_fails(rpmem_remove(both, "pool.set", 0), EINVAL);
    assert_int_equal(access(path_of("a", "part"), F_OK), -1);
    assert_int_equal(write_sets(state), 0);
}

/* Fills the table of descriptors, with close-on-exec, except for the last ones. */
static void leave_descriptors(int *filled, int count, int available)
{
    for (int i = 0; i < count; ++i)
        filled[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = count; i-- > 0 && available > 0;) {
        if (filled[i] < 0)
            continue;
        close(filled[i]);
        filled[i] = -1;
        --available;
    }
}

DEFINE_TEST(a_program_without_descriptors_does_not_suggest_to_remove_a_target, NULL, forget)
{
    enum {
        MAX_DESCRIPTORS = 256
    };
    create_both();
    assert_int_equal(rpmem_close(pool), 0);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit limited = {.rlim_cur = MAX_DESCRIPTORS, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limited), 0);
    unsigned lacking = 0;
    pool = NULL;
    for (int available = 0; available < MAX_DESCRIPTORS && pool == NULL; ++available) {
        int filled[MAX_DESCRIPTORS];
        leave_descriptors(filled, MAX_DESCRIPTORS, available);
        unsigned lanes = 1;
        pool = rpmem_open(both, "pool.set", pool_memory, POOL_SIZE, &lanes, NULL);
        const int error = errno;
        for (int i = 0; i < MAX_DESCRIPTORS; ++i)
            if (filled[i] >= 0)
                close(filled[i]);
        if (pool != NULL)
            break;
        if (strstr(rpmem_errormsg(), "remove it from the list") != NULL)
            fail_msg("%d descriptors: %s", available, rpmem_errormsg());
        lacking += error == EMFILE;
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rpmem_close(must(pool)), 0);
    assert_int_not_equal(lacking, 0);
}

GROUP_FIXTURE(write_sets, NULL)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools at a target: poolsets of every kind, permissions, lanes, and removal. */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <linux/capability.h>

#include "support.h"

enum {
    LANES = 8, /* RPMEM_MAX_NLANES */
    LANE_SIZE = 65536
};

static void write_set(const char *name, const char *options, int parts, const char *part)
{
    FILE *const file = fopen(in_directory(name), "w");
    assert_non_null(file);
    fprintf(file, "PMEMPOOLSET\n%s", options);
    for (int i = 0; i < parts; ++i)
        fprintf(file, "8M %s%d # a part\n", in_directory(part), i);
    assert_int_equal(fclose(file), 0);
}

static RPMEMpool *open_with(const char *set, size_t size, struct rpmem_pool_attr *attributes)
{
    unsigned lanes = 1000;
    RPMEMpool *const pool = rpmem_open("host", set, pool_memory, size, &lanes, attributes);
    if (pool != NULL)
        assert_int_equal(lanes, LANES);
    return pool;
}

static RPMEMpool *create_with(const char *set, const struct rpmem_pool_attr *attributes)
{
    unsigned lanes = 1000;
    RPMEMpool *const pool = rpmem_create("host", set, pool_memory, POOL_SIZE, &lanes, attributes);
    if (pool != NULL)
        assert_int_equal(lanes, LANES);
    return pool;
}

TEST(sets_of_every_kind_hold_a_pool)
{
    assert_int_equal(mkdir(in_directory("below"), 0700), 0);
    const struct rpmem_pool_attr single = {.signature = "SINGLE", .major = 1, .incompat_features = 1};
    const struct {
        const char *name, *options;
        int parts;
        const struct rpmem_pool_attr *attributes;
    } sets[] = {{"below/one.set", "# options: none\n\n", 1, &some_attributes}, {"two.set", "", 2, &some_attributes},
            {"single.set", "OPTION SINGLEHDR\n", 2, &single}, {"none.set", "OPTION NOHDRS\n", 2, NULL}};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); ++i) {
        char part[32];
        snprintf(part, sizeof(part), "kind%zu.part", i);
        write_set(sets[i].name, sets[i].options, sets[i].parts, part);
        RPMEMpool *pool = must(create_with(sets[i].name, sets[i].attributes));
        const size_t from = sets[i].attributes == NULL ? 0 : HEADER_SIZE;
        memset(pool_memory, (int)i + 1, POOL_SIZE);
        assert_int_equal(rpmem_persist(pool, from, POOL_SIZE - from, 3, 0), 0);
        assert_refused(open_with(sets[i].name, POOL_SIZE, NULL), EBUSY);
        assert_int_equal(rpmem_close(pool), 0);
        /* A size smaller than that of the set is accepted. */
        struct rpmem_pool_attr got;
        pool = must(open_with(sets[i].name, POOL_SIZE / 2, &got));
        assert_string_equal(got.signature, sets[i].attributes == NULL ? "" : sets[i].attributes->signature);
        static char copy[POOL_SIZE / 2];
        assert_int_equal(rpmem_read(pool, copy, from, sizeof(copy) - from, LANES - 1), 0);
        assert_memory_equal(copy, pool_memory + from, sizeof(copy) - from);
        assert_fails(rpmem_read(pool, copy, POOL_SIZE / 2, 1, 0), EINVAL);
        assert_int_equal(rpmem_close(pool), 0);
        if (sets[i].attributes == NULL)
            assert_int_equal(rpmem_close(must(create_with(sets[i].name, NULL))), 0);
        else
            assert_refused(create_with(sets[i].name, sets[i].attributes), EEXIST);
        assert_int_equal(rpmem_remove("host", sets[i].name, RPMEM_REMOVE_POOL_SET), 0);
        assert_int_equal(access(in_directory(sets[i].name), F_OK), -1);
    }
    assert_int_equal(rmdir(in_directory("below")), 0);
}

TEST(files_without_permission_are_rejected)
{
    /* Programs that are started after this call must obey the modes of files, even as root. */
    (void)prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
    (void)prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
    write_set("mine.set", "", 1, "mine.part");
    assert_int_equal(rpmem_close(must(create_with("mine.set", &some_attributes))), 0);
    const struct {
        const char *file;
        mode_t mode;
    } cases[] = {{"mine.set", 0}, {"mine.set", 0606}, {"mine.part0", 0}, {"mine.part0", 0400}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        assert_int_equal(chmod(in_directory(cases[i].file), cases[i].mode), 0);
        assert_refused(create_with("mine.set", &some_attributes), EACCES);
        assert_refused(open_with("mine.set", POOL_SIZE, NULL), EACCES);
        assert_int_equal(chmod(in_directory(cases[i].file), 0600), 0);
    }
    assert_int_equal(rpmem_close(must(open_with("mine.set", POOL_SIZE, NULL))), 0);
    assert_int_equal(rpmem_remove("host", "mine.set", RPMEM_REMOVE_POOL_SET), 0);
    /* A directory in which no part can be created. */
    assert_int_equal(mkdir(in_directory("closed"), 0500), 0);
    write_set("closed.set", "", 1, "closed/part");
    assert_refused(create_with("closed.set", &some_attributes), EACCES);
    assert_int_equal(rmdir(in_directory("closed")), 0);
}

TEST(few_descriptors_are_few_lanes)
{
    write_set("few.set", "", 1, "few.part");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit low = {64 + 3 * 6, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    unsigned lanes = 1000;
    RPMEMpool *const pool = must(rpmem_create("host", "few.set", pool_memory, POOL_SIZE, &lanes, &some_attributes));
    assert_int_equal(lanes, 3);
    assert_int_equal(rpmem_persist(pool, HEADER_SIZE, 64, 2, 0), 0);
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rpmem_remove("host", "few.set", RPMEM_REMOVE_POOL_SET), 0);
}

struct user {
    RPMEMpool *pool;
    unsigned lane;
    int failures;
};

static void *use_a_lane(void *argument)
{
    struct user *const u = argument;
    char copy[64];
    for (size_t i = 0; i < 200; ++i) {
        const size_t offset = HEADER_SIZE + u->lane * LANE_SIZE + i * 64;
        const unsigned flags = i % 2 == 0 ? 0 : RPMEM_PERSIST_RELAXED;
        memset(pool_memory + offset, (int)(i + u->lane), 64);
        u->failures += rpmem_persist(u->pool, offset, 64, u->lane, flags) != 0;
        u->failures +=
                rpmem_read(u->pool, copy, offset, 64, u->lane) != 0 || memcmp(copy, pool_memory + offset, 64) != 0;
    }
    return NULL;
}

TEST(each_lane_has_a_thread)
{
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    RPMEMpool *const pool = must(create_with("pool.set", &some_attributes));
    struct user users[LANES];
    pthread_t threads[LANES];
    for (unsigned i = 0; i < LANES; ++i) {
        users[i] = (struct user){.pool = pool, .lane = i};
        assert_int_equal(pthread_create(&threads[i], NULL, use_a_lane, &users[i]), 0);
    }
    for (unsigned i = 0; i < LANES; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(users[i].failures, 0);
    }
    assert_fails(rpmem_persist(pool, HEADER_SIZE, 64, LANES, 0), EINVAL);
    assert_int_equal(rpmem_close(pool), 0);
    static char part[LANES * LANE_SIZE];
    read_part("pool.part", HEADER_SIZE, part, sizeof(part));
    for (size_t lane = 0; lane < LANES; ++lane)
        assert_memory_equal(part + lane * LANE_SIZE, pool_memory + HEADER_SIZE + lane * LANE_SIZE, 200 * 64);
}

GROUP_FIXTURE(make_memory, NULL)

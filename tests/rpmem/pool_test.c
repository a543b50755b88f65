/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of each function for a pool, and the arguments that it rejects. */
#include <pthread.h>

#include "support.h"

static void check_refused(const char *target, const char *set, void *address, size_t size, unsigned wanted, int error,
        const struct rpmem_pool_attr *attributes)
{
    unsigned lanes = wanted;
    assert_refused(rpmem_create(target, set, address, size, &lanes, attributes), error);
}

TEST(bad_arguments_are_refused)
{
    const struct rpmem_pool_attr *const a = &some_attributes;
    const struct {
        const char *target, *set;
        char *address;
        size_t size;
        unsigned lanes;
    } bad[] = {{"host", "pool.set", pool_memory + 1, POOL_SIZE, 1}, {"host", "pool.set", NULL, POOL_SIZE, 1},
            {"host", "pool.set", pool_memory, POOL_SIZE - 1, 1}, {"host", "pool.set", pool_memory, 0, 1},
            {"host", "pool.set", pool_memory, POOL_SIZE, 0}, {"host", "/pool.set", pool_memory, POOL_SIZE, 1},
            {"host", "../pool.set", pool_memory, POOL_SIZE, 1}, {NULL, "pool.set", pool_memory, POOL_SIZE, 1},
            {"host", NULL, pool_memory, POOL_SIZE, 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
        unsigned lanes = bad[i].lanes;
        check_refused(bad[i].target, bad[i].set, bad[i].address, bad[i].size, lanes, EINVAL, a);
        assert_refused(rpmem_open(bad[i].target, bad[i].set, bad[i].address, bad[i].size, &lanes, NULL), EINVAL);
    }
    assert_refused(rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, NULL, a), EINVAL);
    assert_refused(rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, NULL, NULL), EINVAL);
    const char *const malformed[] = {
            "", "host:x", "host:70000", "us er@host", "ho st", "a::b:x", "a:1:2", "a|b", "u|@h", "u@h@"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); ++i) {
        unsigned lanes = 1;
        check_refused(malformed[i], "pool.set", pool_memory, POOL_SIZE, 1, EINVAL, a);
        assert_refused(rpmem_open(malformed[i], "pool.set", pool_memory, POOL_SIZE, &lanes, NULL), EINVAL);
        assert_fails(rpmem_remove(malformed[i], "pool.set", 0), EINVAL);
    }
    assert_fails(rpmem_remove("host", "pool.set", 8), EINVAL);
    assert_fails(rpmem_close(NULL), EINVAL);
}

TEST(errors_of_the_target_are_returned)
{
    unsigned lanes = 1;
    const struct rpmem_pool_attr *const a = &some_attributes;
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    check_refused("host", "nothing.set", pool_memory, POOL_SIZE, 1, ENOENT, a);
    check_refused("host", "broken.set", pool_memory, POOL_SIZE, 1, EINVAL, a);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, EINVAL, NULL);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, EINVAL, &(struct rpmem_pool_attr){.major = 0});
    check_refused("host", "plain.set", pool_memory, POOL_SIZE, 1, EINVAL, a);
    assert_refused(try_to_open(), ENOENT);
    assert_fails(rpmem_remove("host", "pool.set", 0), ENOENT);
    const size_t large = 3 * POOL_SIZE;
    char *const memory = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_refused("host", "pool.set", memory, large, 1, EFBIG, a);

    assert_int_equal(rpmem_close(create_pool("pool.set", a)), 0);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, EEXIST, a);
    assert_refused(rpmem_open("host", "pool.set", memory, large, &lanes, NULL), EFBIG);
    munmap(memory, large);
    assert_int_equal(rpmem_remove("host", "pool.set", 0), 0);
}

TEST(an_open_pool_is_busy)
{
    if (getenv("RPMEM_TEST_SLOW") != NULL)
        skip(); // a client that misses its keep-alive messages loses the pool
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, EBUSY, &some_attributes);
    assert_int_equal(rpmem_close(pool), 0);
    assert_int_equal(rpmem_remove("host", "pool.set", 0), 0);
}

TEST(invalid_calls_leave_the_pool_usable)
{
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    char byte;
    assert_fails(rpmem_persist(pool, 0, 64, 0, 0), EINVAL);
    assert_fails(rpmem_persist(pool, 4095, 64, 0, 0), EINVAL);
    assert_fails(rpmem_persist(pool, 4096, 64, 0, 2), EINVAL);
    assert_fails(rpmem_persist(pool, 4096, 64, 2, 0), EINVAL);
    assert_fails(rpmem_persist(pool, 4096, POOL_SIZE, 0, 0), EINVAL);
    assert_fails(rpmem_persist(pool, 8192, SIZE_MAX - 4096, 0, 0), EINVAL);
    assert_fails(rpmem_flush(pool, 0, 64, 0, 0), EINVAL);
    assert_fails(rpmem_flush(pool, 4096, 64, 0, 4), EINVAL);
    assert_fails(rpmem_flush(pool, 4096, 64, 2, 0), EINVAL);
    assert_fails(rpmem_flush(pool, POOL_SIZE - 63, 64, 0, 0), EINVAL);
    assert_fails(rpmem_flush(pool, 8192, SIZE_MAX - 4096, 0, RPMEM_FLUSH_RELAXED), EINVAL);
    assert_fails(rpmem_drain(pool, 0, 1), EINVAL);
    assert_fails(rpmem_drain(pool, 7, 0), EINVAL);
    assert_fails(rpmem_deep_persist(pool, 0, 64, 0), EINVAL);
    assert_fails(rpmem_deep_persist(pool, POOL_SIZE, 1, 0), EINVAL);
    assert_fails(rpmem_deep_persist(pool, 4096, 64, 2), EINVAL);
    assert_fails(rpmem_deep_persist(pool, 8192, SIZE_MAX - 4096, 0), EINVAL);
    assert_fails(rpmem_read(pool, &byte, 4096, 1, 2), EINVAL);
    assert_fails(rpmem_read(pool, &byte, POOL_SIZE, 1, 0), EINVAL);
    assert_fails(rpmem_read(pool, &byte, SIZE_MAX, 2, 0), EINVAL);
    assert_fails(rpmem_set_attr(pool, NULL), EINVAL);
    assert_fails(rpmem_set_attr(pool, &(struct rpmem_pool_attr){.major = 0}), EINVAL);
    assert_int_equal(rpmem_persist(pool, 4096, 0, 0, 0), 0);
    memset(pool_memory + 4096, 'u', 64);
    assert_int_equal(rpmem_persist(pool, 4096, 64, 1, RPMEM_PERSIST_RELAXED), 0);
    assert_int_equal(rpmem_read(pool, &byte, 4159, 1, 0), 0);
    assert_int_equal(byte, 'u');
    assert_int_equal(rpmem_close(pool), 0);
}

static void fill(size_t seed)
{
    for (size_t i = HEADER_SIZE; i < POOL_SIZE; ++i)
        pool_memory[i] = (char)(i * 31 + i / 4093 + seed);
}

TEST(persisted_data_is_in_the_part)
{
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    char *const copy = malloc(POOL_SIZE);
    fill(1);
    assert_int_equal(rpmem_persist(pool, HEADER_SIZE, POOL_SIZE - HEADER_SIZE, 0, 0), 0);
    read_part("pool.part", HEADER_SIZE, copy, POOL_SIZE - HEADER_SIZE);
    assert_memory_equal(copy, pool_memory + HEADER_SIZE, POOL_SIZE - HEADER_SIZE);
    /* More ranges than a queue or a request can contain. */
    fill(2);
    for (size_t at = HEADER_SIZE; at < POOL_SIZE; at += 8192)
        assert_int_equal(rpmem_flush(pool, at, 4000, 1, at % 16384 == 4096 ? RPMEM_FLUSH_RELAXED : 0), 0);
    assert_int_equal(rpmem_drain(pool, 1, 0), 0);
    read_part("pool.part", HEADER_SIZE, copy, POOL_SIZE - HEADER_SIZE);
    for (size_t at = 0; at < POOL_SIZE - HEADER_SIZE; at += 8192)
        assert_memory_equal(copy + at, pool_memory + HEADER_SIZE + at, 4000);
    fill(3);
    assert_int_equal(rpmem_deep_persist(pool, 5000, 3000, 0), 0);
    read_part("pool.part", 5000, copy, 3000);
    assert_memory_equal(copy, pool_memory + 5000, 3000);
    /* Starts at the header, and is larger than the memory of a lane. */
    memset(copy, 0, POOL_SIZE);
    assert_int_equal(rpmem_read(pool, copy, 100, POOL_SIZE - 100, 0), 0);
    char *const part = malloc(POOL_SIZE);
    read_part("pool.part", 100, part, POOL_SIZE - 100);
    assert_memory_equal(copy, part, POOL_SIZE - 100);
    /* Source and destination without any alignment. */
    assert_int_equal(rpmem_read(pool, copy + 3, 4097, 70001, 1), 0);
    assert_memory_equal(copy + 3, part + 4097 - 100, 70001);
    assert_int_equal(rpmem_close(pool), 0);
    free(copy);
    free(part);
}

TEST(attributes_are_kept)
{
    RPMEMpool *pool = create_pool("pool.set", &some_attributes);
    struct rpmem_pool_attr changed = some_attributes;
    memcpy(changed.signature, "CHANGED", 8);
    memset(changed.uuid, 7, sizeof(changed.uuid));
    assert_int_equal(rpmem_set_attr(pool, &changed), 0);
    assert_int_equal(rpmem_close(pool), 0);
    unsigned lanes = 1;
    struct rpmem_pool_attr got;
    pool = must(rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &got));
    assert_memory_equal(got.signature, "CHANGED", 8);
    assert_memory_equal(got.uuid, changed.uuid, sizeof(got.uuid));
    assert_int_equal(rpmem_close(pool), 0);
    /* The header is not writable even if the caller does not request the attributes. */
    pool = must(try_to_open());
    assert_fails(rpmem_persist(pool, 0, 64, 0, 0), EINVAL);
    assert_int_equal(rpmem_close(pool), 0);
}

TEST(a_pool_without_header_is_data_from_its_start)
{
    RPMEMpool *pool = create_pool("plain.set", NULL);
    char byte = 0;
    memset(pool_memory, 'p', 64);
    assert_int_equal(rpmem_persist(pool, 0, 64, 0, 0), 0);
    assert_int_equal(rpmem_deep_persist(pool, 0, 64, 0), 0);
    read_part("plain.part", 63, &byte, 1);
    assert_int_equal(byte, 'p');
    assert_fails(rpmem_set_attr(pool, &some_attributes), EINVAL);
    assert_int_equal(rpmem_set_attr(pool, NULL), 0);
    assert_int_equal(rpmem_close(pool), 0);
    unsigned lanes = 2;
    const struct rpmem_pool_attr none = {.major = 0};
    pool = must(rpmem_create("host", "plain.set", pool_memory, POOL_SIZE, &lanes, &none));
    byte = 0;
    assert_int_equal(rpmem_read(pool, &byte, 0, 1, 0), 0);
    assert_int_equal(byte, 'p');
    assert_int_equal(rpmem_close(pool), 0);
}

/* Bytes of a part's pages that are mapped into this process. */
static size_t mapped_here(const char *part)
{
    char line[4096 + 256];
    size_t kilobytes = 0;
    FILE *const maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    for (bool found = false; kilobytes == 0 && fgets(line, sizeof(line), maps) != NULL;) {
        line[strcspn(line, "\n")] = '\0';
        const size_t length = strlen(line);
        found = found || (length > strlen(part) && strcmp(line + length - strlen(part), part) == 0);
        if (found)
            (void)sscanf(line, "Rss: %zu kB", &kilobytes);
    }
    fclose(maps);
    return kilobytes << 10;
}

/* On one host the part is mapped into this process. The first write to a page prepares the following pages, too. */
TEST(pages_are_there_before_they_are_written)
{
    RPMEMpool *const pool = create_pool("plain.set", NULL);
    size_t mapped = 0;
    for (int i = 0; i < 30000 && mapped == 0; ++i, usleep(1000)) {
        assert_int_equal(rpmem_persist(pool, 0, 64, 0, 0), 0);
        mapped = mapped_here("/plain.part");
    }
    assert_in_range(mapped, 128 << 10, POOL_SIZE / 2);
    assert_int_equal(rpmem_close(pool), 0);
}

/* RPMEM_MAX_NLANES is not a number. */
TEST(an_invalid_number_of_lanes_is_ignored)
{
    unsigned lanes = 1000;
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    RPMEMpool *const pool = must(rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes));
    assert_int_equal(lanes, 64);
    assert_int_equal(rpmem_persist(pool, HEADER_SIZE, 64, 63, 0), 0);
    assert_int_equal(rpmem_close(pool), 0);
}

TEST(levels_are_enforced)
{
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    setenv("RPMEM_MIN_LEVEL", "2", 1);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, ENOTSUP, &some_attributes);
    setenv("RPMEM_MIN_LEVEL", "five", 1);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, EINVAL, &some_attributes);
    unsetenv("RPMEM_MIN_LEVEL");
    /* The pool that could not be used was deleted. */
    assert_fails(rpmem_remove("host", "pool.set", 0), ENOENT);
}

TEST(without_any_device_nothing_is_started)
{
    setenv("RPMEM_ENABLE_VERBS", "0", 1);
    setenv("RPMEM_ENABLE_SOCKETS", "0", 1);
    check_refused("host", "pool.set", pool_memory, POOL_SIZE, 1, ENOMEDIUM, &some_attributes);
    assert_non_null(strstr(rpmem_errormsg(), "RPMEM_ENABLE_SOCKETS"));
    /* Removal does not need a device. */
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    unsetenv("RPMEM_ENABLE_VERBS");
    unsetenv("RPMEM_ENABLE_SOCKETS");
    /* Three times this value exceeds the range of an int. */
    setenv("RPMEM_OP_TIMEOUT_MS", "2147483647", 1);
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    unsetenv("RPMEM_OP_TIMEOUT_MS");
}

static void *set_many_attributes(void *pool)
{
    for (int i = 0; i < 50; ++i)
        if (rpmem_set_attr(pool, &some_attributes) != 0)
            return pool;
    return NULL;
}

TEST(threads_set_attributes_at_the_same_time)
{
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, set_many_attributes, pool), 0);
    for (int i = 0; i < 4; ++i) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(rpmem_close(pool), 0);
}

static void *fail_in_a_thread(void *unused)
{
    if (rpmem_errormsg()[0] != '\0')
        return "it begins with the error of another thread";
    (void)rpmem_remove("host", "/absolute.set", 0);
    return strstr(rpmem_errormsg(), "relative") == NULL ? "the error is not there" : NULL;
}

TEST(each_thread_has_its_own_error)
{
    assert_fails(rpmem_remove("host", "pool.set", 8), EINVAL);
    const char *const text = rpmem_errormsg();
    assert_non_null(strstr(text, "0x8"));
    pthread_t thread;
    void *fault = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_a_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &fault), 0);
    assert_string_equal(fault == NULL ? "" : fault, "");
    /* A successful call does not change the message. */
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    assert_non_null(strstr(rpmem_errormsg(), "0x8"));
}

TEST(versions_are_compared)
{
    assert_null(rpmem_check_version(1, 0));
    assert_null(rpmem_check_version(1, 3));
    assert_non_null(rpmem_check_version(1, 4));
    assert_non_null(rpmem_check_version(2, 0));
}

/* Programs that were compiled for the original rely on these. */
TEST(layout_and_constants_are_the_originals)
{
#define IS_AT(field, offset, size)                                                                                     \
    assert_int_equal(offsetof(struct rpmem_pool_attr, field), (offset));                                               \
    assert_int_equal(sizeof(((struct rpmem_pool_attr *)NULL)->field), (size))
    IS_AT(signature, 0, 8);
    IS_AT(major, 8, 4);
    IS_AT(compat_features, 12, 4);
    IS_AT(incompat_features, 16, 4);
    IS_AT(ro_compat_features, 20, 4);
    IS_AT(poolset_uuid, 24, 16);
    IS_AT(uuid, 40, 16);
    IS_AT(next_uuid, 56, 16);
    IS_AT(prev_uuid, 72, 16);
    IS_AT(user_flags, 88, 16);
#undef IS_AT
    assert_int_equal(sizeof(struct rpmem_pool_attr), 104);
    assert_int_equal(_Alignof(struct rpmem_pool_attr), 4);
    const unsigned long constants[][2] = {{RPMEM_POOL_HDR_SIG_LEN, 8}, {RPMEM_POOL_HDR_UUID_LEN, 16},
            {RPMEM_POOL_USER_FLAGS_LEN, 16}, {RPMEM_PERSIST_RELAXED, 1}, {RPMEM_FLUSH_RELAXED, 1},
            {RPMEM_REMOVE_FORCE, 1}, {RPMEM_REMOVE_POOL_SET, 2}, {RPMEM_MAJOR_VERSION, 1}, {RPMEM_MINOR_VERSION, 3},
            {RPMEM_MIN_POOL, 8192}, {RPMEM_MIN_PART, 2097152}};
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); ++i)
        assert_int_equal(constants[i][0], constants[i][1]);
    assert_string_equal(RPMEM_DEPR_STR, "");
}

/* The compiler checks that the functions have the types with which programs call them. */
TEST(functions_have_the_originals_types)
{
    RPMEMpool *(*const creates)(
            const char *, const char *, void *, size_t, unsigned *, const struct rpmem_pool_attr *) = rpmem_create;
    RPMEMpool *(*const opens)(const char *, const char *, void *, size_t, unsigned *, struct rpmem_pool_attr *) =
            rpmem_open;
    int (*const sets_attr)(RPMEMpool *, const struct rpmem_pool_attr *) = rpmem_set_attr;
    int (*const closes)(RPMEMpool *) = rpmem_close;
    int (*const removes)(const char *, const char *, int) = rpmem_remove;
    int (*const persists)(RPMEMpool *, size_t, size_t, unsigned, unsigned) = rpmem_persist;
    int (*const flushes)(RPMEMpool *, size_t, size_t, unsigned, unsigned) = rpmem_flush;
    int (*const drains)(RPMEMpool *, unsigned, unsigned) = rpmem_drain;
    int (*const deep_persists)(RPMEMpool *, size_t, size_t, unsigned) = rpmem_deep_persist;
    int (*const reads)(RPMEMpool *, void *, size_t, size_t, unsigned) = rpmem_read;
    const char *(*const checks_version)(unsigned, unsigned) = rpmem_check_version;
    const char *(*const gets_message)(void) = rpmem_errormsg;
    assert_true(creates && opens && sets_attr && closes && removes && persists && flushes && drains && deep_persists &&
                reads && checks_version && gets_message);
}

GROUP_FIXTURE(make_memory, NULL)

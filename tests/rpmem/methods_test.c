/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usage: methods_test LEVEL METHOD FAILING. Checks that a target makes data durable by METHOD, and that RPMEM_MIN_LEVEL
 * is compared with LEVEL. FAILING is the file that makes msync() fail, at the target and in this process; `deep` if
 * only a deep persist uses it; `-` if no file does.
 */
#include "support.h"

enum {
    HIGHEST_LEVEL = 4
};

static int level, method;
static const char *failing;

TEST(the_level_is_enforced)
{
    char text[64];
    unsigned lanes = 2;
    assert_int_equal(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE), 0);
    for (int wanted = level + 1; wanted <= HIGHEST_LEVEL; ++wanted) {
        snprintf(text, sizeof(text), "%d", wanted);
        setenv("RPMEM_MIN_LEVEL", text, 1);
        assert_refused(rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes), ENOTSUP);
        snprintf(text, sizeof(text), "persistence level %d is below", level);
        if (strstr(rpmem_errormsg(), text) == NULL)
            fail_msg("'%s' does not have '%s'", rpmem_errormsg(), text);
    }
    snprintf(text, sizeof(text), "%d", level);
    setenv("RPMEM_MIN_LEVEL", text, 1);
    assert_int_equal(rpmem_close(create_pool("pool.set", &some_attributes)), 0);
    setenv("RPMEM_MIN_LEVEL", "0", 1);
    /* The log of the library reports the same level. */
    snprintf(text, sizeof(text), "method %d, level %d", method, level);
    if (!contains("library.log", text))
        fail_msg("'%s' is not in the log", text);
}

TEST(each_persist_function_reaches_the_replica)
{
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    for (size_t i = HEADER_SIZE; i < POOL_SIZE; ++i)
        pool_memory[i] = (char)(i * 13 + i / 4096);
    assert_int_equal(rpmem_persist(pool, 4096, 64, 0, 0), 0);
    expect_in_part(4096, 64);
    assert_int_equal(rpmem_persist(pool, 8192, 3 << 20, 0, RPMEM_PERSIST_RELAXED), 0);
    expect_in_part(8192, 3 << 20);
    assert_int_equal(rpmem_deep_persist(pool, 4 << 20, 5000, 1), 0);
    expect_in_part(4 << 20, 5000);
    /* Counts around the size of the send queue, which is 50, and around the maximum size of a request. */
    for (size_t count = 1; count <= 130; count += count < 45 || count > 66 ? 21 : 1) {
        for (size_t i = 0; i < count; ++i)
            memset(pool_memory + (5 << 20) + i * 128, (int)(count + i), 64);
        for (size_t i = 0; i + 1 < count; ++i)
            assert_int_equal(rpmem_flush(pool, (5 << 20) + i * 128, 64, 1, 0), 0);
        /* The last operation is a persist instead of flush and drain. */
        assert_int_equal(rpmem_persist(pool, (5 << 20) + (count - 1) * 128, 64, 1, 0), 0);
        for (size_t i = 0; i < count; ++i)
            expect_in_part((5 << 20) + i * 128, 64);
    }
    assert_int_equal(rpmem_close(pool), 0);
}

TEST(a_failure_to_flush_reaches_the_caller)
{
    if (strcmp(failing, "fail") != 0)
        skip();
    for (int way = 0; way < 3; ++way) {
        RPMEMpool *pool = create_pool("pool.set", &some_attributes);
        assert_int_equal(rpmem_persist(pool, 4096, 64, 0, 0), 0);
        make_file("fail");
        errno = 0;
        if (way == 0)
            assert_int_equal(rpmem_persist(pool, 4096, 64, 0, 0), -1);
        else if (way == 1)
            assert_int_equal(rpmem_deep_persist(pool, 4096, 64, 0), -1);
        else
            assert_int_equal(rpmem_flush(pool, 4096, 64, 0, 0) | rpmem_drain(pool, 0, 0), -1);
        const int error = errno;
        /* A message reports that the target cannot flush; a device reports only that the operation failed. */
        if (way == 1 || method == 1)
            assert_int_equal(error, EIO);
        else
            assert_int_equal(error, ECONNRESET);
        assert_fails(rpmem_persist(pool, 4096, 64, 1, 0), error);
        assert_int_equal(rpmem_close(pool), -1);
        assert_int_equal(unlink(in_directory("fail")), 0);
        pool = must(try_to_open());
        assert_int_equal(rpmem_persist(pool, 4096, 64, 0, 0), 0);
        assert_int_equal(rpmem_close(pool), 0);
    }
}

/* The target executes a deep persist even if writes are persistent on arrival, because only the target knows the
 * result. */
TEST(a_deep_persist_is_done_by_the_target)
{
    if (strcmp(failing, "deep") != 0)
        skip();
    RPMEMpool *const pool = create_pool("pool.set", &some_attributes);
    assert_int_equal(rpmem_deep_persist(pool, 4096, 64, 0), 0);
    make_file("fail");
    assert_fails(rpmem_deep_persist(pool, 4096, 64, 0), EIO);
    assert_fails(rpmem_close(pool), ECONNRESET);
    assert_int_equal(unlink(in_directory("fail")), 0);
}

GROUP_FIXTURE(make_memory, NULL)

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    level = atoi(argv[1]);
    method = atoi(argv[2]);
    failing = argv[3];
    return run_registered_tests();
}

// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// Counters of a connection.

enum {
    ALWAYS = RPMA_F_COMPLETION_ALWAYS,
    QUEUED = RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE,
};

static void assert_counters(const struct rpma_conn_counters *expected)
{
    struct rpma_conn_counters found;
    memset(&found, 0xff, sizeof(found));
    assert_int_equal(rpma_conn_get_counters(conn, &found, sizeof(found)), 0);
    assert_memory_equal(&found, expected, sizeof(found));
}

// Posts each operation a different number of times, each time with another length.
static void post(int flags)
{
    char word[8] = "ABCDEFG";
    assert_int_equal(rpma_read(conn, mr, 0, remote, 0, 100, flags, NULL), 0);
    assert_int_equal(rpma_write(conn, remote, 0, mr, 0, 30, flags, NULL), 0);
    assert_int_equal(rpma_write_with_imm(conn, remote, 0, mr, 0, 4, flags, 1, NULL), 0);
    assert_int_equal(rpma_write(conn, NULL, 0, NULL, 0, 0, flags, NULL), 0);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(rpma_atomic_write(conn, remote, 8, word, flags, NULL), 0);
    for (int i = 0; i < 4; ++i)
        assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, NULL), 0);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(rpma_send(conn, mr, 0, 7, flags, NULL), 0);
    assert_int_equal(rpma_send_with_imm(conn, mr, 0, 9, flags, 1, NULL), 0);
    assert_int_equal(rpma_send(conn, NULL, 0, 0, flags, NULL), 0);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(rpma_recv(conn, mr, 0, 8, NULL), 0);
    assert_int_equal(rpma_recv(conn, NULL, 0, 0, NULL), 0);
}

static const struct rpma_conn_counters posted_once = {.reads = 1,
        .read_bytes = 100,
        .writes = 3,
        .write_bytes = 34,
        .atomic_writes = 2,
        .flushes = 4,
        .sends = 5,
        .send_bytes = 30,
        .receives = 6};

PATH_TEST(a_new_connection_has_counted_nothing)
{
    assert_counters(&(struct rpma_conn_counters){0});
}

PATH_TEST(every_operation_is_counted_with_its_bytes)
{
    post(ALWAYS);
    assert_counters(&posted_once);
}

NATIVE_PATH_TEST(every_native_operation_is_counted_with_its_bytes)
{
    every_operation_is_counted_with_its_bytes(state);
}

PATH_TEST(queued_operations_are_counted_when_queued)
{
    post(QUEUED);
    assert_counters(&posted_once);
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_counters(&posted_once);
}

NATIVE_PATH_TEST(queued_native_operations_are_counted_when_queued)
{
    queued_operations_are_counted_when_queued(state);
}

PATH_TEST(wrong_arguments_are_not_counted)
{
    char word[8] = "ABCDEFG";
    assert_int_equal(rpma_read(conn, mr, 0, remote, 0, MR_SIZE + 1, ALWAYS, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_write(conn, remote, 0, mr, 0, 8, 0, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_atomic_write(conn, remote, 4, word, ALWAYS, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 0, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_send(conn, mr, 0, MR_SIZE + 1, ALWAYS, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_recv(conn, NULL, 0, 1, NULL), RPMA_E_INVAL);
    assert_counters(&(struct rpma_conn_counters){0});
}

PATH_TEST(operations_that_the_device_rejects_are_counted)
{
    fake_fail_only("ibv_post_send");
    fake_fail_call(1, ENOMEM, false);
    assert_int_equal(rpma_write(conn, remote, 0, mr, 0, 8, ALWAYS, NULL), RPMA_E_PROVIDER);
    assert_counters(&(struct rpma_conn_counters){.writes = 1, .write_bytes = 8});
}

PATH_TEST(programs_of_other_versions_have_other_sizes)
{
    post(ALWAYS);
    struct {
        struct rpma_conn_counters known;
        uint64_t later;
    } longer;
    memset(&longer, 0xff, sizeof(longer));
    assert_int_equal(rpma_conn_get_counters(conn, &longer.known, sizeof(longer)), 0);
    assert_memory_equal(&longer.known, &posted_once, sizeof(posted_once));
    assert_int_equal(longer.later, 0);

    struct rpma_conn_counters shorter;
    memset(&shorter, 0xff, sizeof(shorter));
    assert_int_equal(rpma_conn_get_counters(conn, &shorter, sizeof(uint64_t)), 0);
    assert_int_equal(shorter.reads, 1);
    assert_int_equal(shorter.read_bytes, UINT64_MAX);
    assert_int_equal(rpma_conn_get_counters(conn, &shorter, 0), RPMA_E_INVAL);
    assert_int_equal(shorter.reads, 1);
}

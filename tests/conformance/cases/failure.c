// SPDX-License-Identifier: BSD-3-Clause
/* Operations that are posted and then fail. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(failure);

#define LENGTH_AT 8
#define KEY_AT 16

/* Checks that the failed and all later operations complete with an error, and that the peer's memory is unchanged. */
static void assert_broken(const struct pair *pair, enum ibv_wc_status status)
{
    char later;
    expect_failure(pair->client.cq, status, pair);
    assert_done(rpma_write(pair->client.conn, NULL, 0, NULL, 0, 0, ON_ERROR, &later));
    expect_failure(pair->client.cq, IBV_WC_WR_FLUSH_ERR, &later);
    assert_filled(pair->server.memory.ptr, MEMORY_SIZE, 0);
}

/* name, region of the peer, call on it, which names that region `remote` */
#define ACCESS_ERROR_CASE(name, remote_region, call)                                                                   \
    CASE(name##_is_an_access_error)                                                                                    \
    {                                                                                                                  \
        struct pair pair = connect_pair();                                                                             \
        struct rpma_conn *conn = pair.client.conn;                                                                     \
        struct rpma_mr_local *mr = pair.client.memory.mr;                                                              \
        struct rpma_mr_remote *remote = remote_region;                                                                 \
        (void)mr;                                                                                                      \
        fill(pair.client.memory.ptr, 64, 1);                                                                           \
        assert_done(call);                                                                                             \
        assert_broken(&pair, IBV_WC_REM_ACCESS_ERR);                                                                   \
    }

/* name, byte of the descriptor, bits to invert, call */
#define FORGED(ROW)                                                                                                    \
    ROW(a_write_with_a_key_wrong_in_byte_0, KEY_AT, 0x10, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))       \
    ROW(a_write_with_a_key_wrong_in_byte_1, KEY_AT + 1, 0x10, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))   \
    ROW(a_write_with_a_key_wrong_in_byte_2, KEY_AT + 2, 0x10, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))   \
    ROW(a_write_with_a_key_wrong_in_byte_3, KEY_AT + 3, 0x10, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))   \
    ROW(a_read_with_a_wrong_key, KEY_AT, 1, rpma_read(conn, mr, 0, remote, 0, 64, ALWAYS, &pair))                      \
    ROW(an_atomic_write_with_a_wrong_key, KEY_AT, 1, rpma_atomic_write(conn, remote, 0, "8 bytes", ALWAYS, &pair))     \
    ROW(a_flush_with_a_wrong_key, KEY_AT, 1,                                                                           \
            rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair))                                 \
    ROW(a_write_beyond_the_registered_memory, LENGTH_AT + 2, 0x10,                                                     \
            rpma_write(conn, remote, MEMORY_SIZE - 4, mr, 0, 8, ALWAYS, &pair))                                        \
    ROW(a_read_beyond_the_registered_memory, LENGTH_AT + 2, 0x10,                                                      \
            rpma_read(conn, mr, 0, remote, MEMORY_SIZE - 4, 8, ALWAYS, &pair))                                         \
    ROW(a_failing_write_without_a_requested_completion, KEY_AT, 1,                                                     \
            rpma_write(conn, remote, 0, mr, 0, 8, ON_ERROR, &pair))                                                    \
    ROW(a_failing_read_without_a_requested_completion, KEY_AT, 1, rpma_read(conn, mr, 0, remote, 0, 8, ON_ERROR, &pair))

#define FORGED_CASE(name, byte, bits, call)                                                                            \
    ACCESS_ERROR_CASE(name, forged_remote_of(pair.server.memory, byte, bits), call)
FORGED(FORGED_CASE)

/* name, usage of the peer's region, call */
#define FORBIDDEN(ROW)                                                                                                 \
    ROW(writing_what_may_only_be_read, RPMA_MR_USAGE_READ_SRC, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))  \
    ROW(reading_what_may_only_be_written, RPMA_MR_USAGE_WRITE_DST,                                                     \
            rpma_read(conn, mr, 0, remote, 0, 64, ALWAYS, &pair))                                                      \
    ROW(writing_atomically_what_may_only_be_read, RPMA_MR_USAGE_READ_SRC,                                              \
            rpma_atomic_write(conn, remote, 0, "8 bytes", ALWAYS, &pair))                                              \
    ROW(writing_what_is_for_messages, RPMA_MR_USAGE_RECV, rpma_write(conn, remote, 0, mr, 0, 64, ALWAYS, &pair))       \
    ROW(reading_what_is_for_messages, RPMA_MR_USAGE_SEND, rpma_read(conn, mr, 0, remote, 0, 64, ALWAYS, &pair))

#define FORBIDDEN_CASE(name, usage, call) ACCESS_ERROR_CASE(name, remote_of(new_region(pair.peer, 4096, usage)), call)
FORBIDDEN(FORBIDDEN_CASE)

CASE(a_region_that_was_deregistered_is_an_access_error)
{
    struct pair pair = connect_pair();
    assert_done(rpma_mr_dereg(&pair.server.memory.mr));
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 64, ALWAYS, &pair));
    assert_broken(&pair, IBV_WC_REM_ACCESS_ERR);
}

CASE(reading_into_memory_for_sending_is_a_local_protection_error)
{
    struct pair pair = connect_pair();
    struct region source = new_region(pair.peer, 4096, RPMA_MR_USAGE_SEND);
    assert_done(rpma_read(pair.client.conn, source.mr, 0, pair.client.remote, 0, 64, ALWAYS, &pair));
    expect_failure(pair.client.cq, IBV_WC_LOC_PROT_ERR, &pair);
}

CASE(operations_behind_a_failed_one_are_flushed_in_order)
{
    struct pair pair = connect_pair();
    struct rpma_mr_remote *forged = forged_remote_of(pair.server.memory, KEY_AT, 1);
    char *contexts = pair.client.memory.ptr;
    assert_done(rpma_write(pair.client.conn, forged, 0, pair.client.memory.mr, 0, 8, ALWAYS, contexts));
    for (size_t i = 1; i < 6; ++i)
        assert_done(
                rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, contexts + i));
    expect_failure(pair.client.cq, IBV_WC_REM_ACCESS_ERR, contexts);
    for (size_t i = 1; i < 6; ++i)
        expect_failure(pair.client.cq, IBV_WC_WR_FLUSH_ERR, contexts + i);
}

CASE(a_broken_connection_can_be_ended_and_deleted)
{
    struct pair pair = connect_pair();
    struct rpma_mr_remote *forged = forged_remote_of(pair.server.memory, KEY_AT, 1);
    assert_done(rpma_write(pair.client.conn, forged, 0, pair.client.memory.mr, 0, 8, ALWAYS, &pair));
    expect_failure(pair.client.cq, IBV_WC_REM_ACCESS_ERR, &pair);
    assert_done(rpma_conn_disconnect(pair.client.conn));
    expect_end(pair.server.conn);
    assert_done(rpma_conn_delete(&pair.client.conn));
    assert_done(rpma_conn_delete(&pair.server.conn));
}

CASE(a_broken_connection_does_not_affect_another)
{
    struct pair first = connect_pair();
    struct pair second = connect_again(&first);
    struct rpma_mr_remote *forged = forged_remote_of(first.server.memory, KEY_AT, 1);
    assert_done(rpma_write(first.client.conn, forged, 0, first.client.memory.mr, 0, 8, ALWAYS, &first));
    expect_failure(first.client.cq, IBV_WC_REM_ACCESS_ERR, &first);
    assert_done(
            rpma_write(second.client.conn, second.client.remote, 0, second.client.memory.mr, 0, 8, ALWAYS, &second));
    expect_success(second.client.cq, IBV_WC_RDMA_WRITE, &second);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <stdio.h>
#include <sys/mman.h>

SUITE(flush);

#define BOTH_TYPES (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

static void apply(struct rpma_conn *conn, bool direct_write_to_pmem)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_done(rpma_peer_cfg_new(&cfg));
    assert_done(rpma_peer_cfg_set_direct_write_to_pmem(cfg, direct_write_to_pmem));
    assert_done(rpma_conn_apply_remote_peer_cfg(conn, cfg));
    assert_done(rpma_peer_cfg_delete(&cfg));
}

static int flush_to(struct pair *pair, enum rpma_flush_type type, size_t length)
{
    return rpma_flush(pair->client.conn, pair->client.remote, 0, length, type, ALWAYS, pair);
}

/* Returns a connection to a region of the given size and usage. */
static struct pair pair_to(size_t size, int usage)
{
    struct pair pair = connect_pair();
    pair.server.memory = new_region(pair.peer, size, usage);
    pair.client.remote = remote_of(pair.server.memory);
    return pair;
}

CASE(after_a_flush_to_visibility_the_data_is_there)
{
    struct pair pair = connect_pair();
    for (unsigned round = 1; round <= 50; ++round) {
        fill(pair.client.memory.ptr, 8192, round);
        assert_done(
                rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8192, ON_ERROR, NULL));
        assert_done(flush_to(&pair, RPMA_FLUSH_TYPE_VISIBILITY, 8192));
        expect_flushed(pair.client.cq, &pair);
        assert_filled(pair.server.memory.ptr, 8192, round);
    }
}

CASE(a_flush_leaves_the_memory_of_both_sides_alone)
{
    struct pair pair = connect_pair();
    fill(pair.server.memory.ptr, MEMORY_SIZE, 3);
    fill(pair.client.memory.ptr, MEMORY_SIZE, 4);
    assert_done(flush_to(&pair, RPMA_FLUSH_TYPE_VISIBILITY, MEMORY_SIZE));
    expect_flushed(pair.client.cq, &pair);
    assert_filled(pair.server.memory.ptr, MEMORY_SIZE, 3);
    assert_filled(pair.client.memory.ptr, MEMORY_SIZE, 4);
}

/* Expects that a region of this usage cannot be flushed without a peer configuration. */
static void refused(int usage, enum rpma_flush_type type)
{
    struct pair pair = pair_to(4096, usage);
    assert_rpma(flush_to(&pair, type, 8), RPMA_E_NOSUPP);
}

CALL_CASE(visibility_needs_a_region_registered_for_it,
        refused(RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC, RPMA_FLUSH_TYPE_VISIBILITY));
CALL_CASE(visibility_is_not_contained_in_persistence,
        refused(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY));

CASE(persistence_needs_direct_write_to_pmem)
{
    struct pair pair = pair_to(4096, BOTH_TYPES);
    apply(pair.client.conn, false);
    assert_rpma(flush_to(&pair, RPMA_FLUSH_TYPE_PERSISTENT, 8), RPMA_E_NOSUPP);
}

CASE(persistence_needs_a_region_registered_for_it)
{
    struct pair pair = pair_to(4096, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_WRITE_DST);
    apply(pair.client.conn, true);
    assert_rpma(flush_to(&pair, RPMA_FLUSH_TYPE_PERSISTENT, 8), RPMA_E_NOSUPP);
}

/* Returns a region of a shared file mapping, which a device can make durable on a machine without persistent memory. */
static struct region new_file_region(struct rpma_peer *peer, FILE *file, size_t size)
{
    struct region region = {.size = size};
    assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
    region.ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_true(region.ptr != MAP_FAILED);
    assert_done(rpma_mr_reg(peer, region.ptr, size, RPMA_MR_USAGE_WRITE_DST | BOTH_TYPES, &region.mr));
    return region;
}

/* A device with native flush may reject persistence for a file. The descriptor then lacks that flush type. */
CASE(with_direct_write_to_pmem_persistence_is_flushed_to)
{
    unsigned char stored[4096];
    int types = 0;
    FILE *const file = tmpfile();
    assert_non_null(file);
    struct pair pair = connect_pair();
    pair.server.memory = new_file_region(pair.peer, file, sizeof(stored));
    pair.client.remote = remote_of(pair.server.memory);
    assert_done(rpma_mr_remote_get_flush_type(pair.client.remote, &types));
    if ((types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) == 0)
        skip_because("the device does not flush mapped files to persistence");

    apply(pair.client.conn, true);
    fill(pair.client.memory.ptr, sizeof(stored), 5);
    assert_done(rpma_write(
            pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, sizeof(stored), ON_ERROR, NULL));
    assert_done(flush_to(&pair, RPMA_FLUSH_TYPE_PERSISTENT, sizeof(stored)));
    expect_flushed(pair.client.cq, &pair);
    assert_int_equal(pread(fileno(file), stored, sizeof(stored), 0), sizeof(stored));
    assert_filled(stored, sizeof(stored), 5);
}

CASE(the_peer_configuration_can_be_revoked)
{
    struct pair pair = pair_to(4096, BOTH_TYPES);
    apply(pair.client.conn, true);
    apply(pair.client.conn, false);
    assert_rpma(flush_to(&pair, RPMA_FLUSH_TYPE_PERSISTENT, 8), RPMA_E_NOSUPP);
}

CASE(the_peer_configuration_holds_for_one_connection)
{
    struct pair first = pair_to(4096, BOTH_TYPES);
    struct pair second = connect_again(&first);
    apply(first.client.conn, true);
    assert_rpma(flush_to(&second, RPMA_FLUSH_TYPE_PERSISTENT, 8), RPMA_E_NOSUPP);
}

CASE(persistence_without_a_peer_configuration_is_refused_and_posts_nothing)
{
    struct pair pair = pair_to(4096, BOTH_TYPES);
    assert_rpma(flush_to(&pair, RPMA_FLUSH_TYPE_PERSISTENT, 8), RPMA_E_NOSUPP);
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, &state));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &state);
}

/* name, size of the region, offset, length */
#define EDGES(ROW)                                                                                                     \
    ROW(the_last_byte, 4096, 4095, 1)                                                                                  \
    ROW(the_last_7_bytes, 4096, 4089, 7)                                                                               \
    ROW(the_last_8_bytes, 4096, 4088, 8)                                                                               \
    ROW(a_region_of_8_bytes, 8, 0, 8)                                                                                  \
    ROW(a_region_of_7_bytes, 7, 0, 7)                                                                                  \
    ROW(a_region_of_1_byte, 1, 0, 1)                                                                                   \
    ROW(the_whole_region, 4096, 0, 4096)

#define EDGE_CASE(name, size, offset, length)                                                                          \
    CASE(name##_can_be_flushed)                                                                                        \
    {                                                                                                                  \
        struct pair pair = pair_to(size, USAGE_ALL);                                                                   \
        assert_done(rpma_flush(                                                                                        \
                pair.client.conn, pair.client.remote, offset, length, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair));     \
        expect_flushed(pair.client.cq, &pair);                                                                         \
    }
EDGES(EDGE_CASE)

CASE(a_region_to_write_and_flush_need_not_be_readable)
{
    struct pair pair = pair_to(4096, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    assert_done(flush_to(&pair, RPMA_FLUSH_TYPE_VISIBILITY, 8));
    expect_flushed(pair.client.cq, &pair);
}

CASE(flushes_can_outnumber_the_outstanding_reads_of_a_device)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_sq_size(cfg, 200));
    assert_done(rpma_conn_cfg_set_cq_size(cfg, 200));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    for (int i = 0; i < 200; ++i)
        assert_done(flush_to(&pair, RPMA_FLUSH_TYPE_VISIBILITY, 8));
    for (int i = 0; i < 200; ++i)
        expect_flushed(pair.client.cq, &pair);
}

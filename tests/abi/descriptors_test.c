// SPDX-License-Identifier: BSD-3-Clause
// Layout of the descriptors that peers exchange, possibly with another version of the library.
#include <string.h>
#include <librpma.h>

#include "registered_tests.h"

enum {
    mr_descriptor_size = 21,
    guard = 0xA5,
    alignments = 21,
};

// The null provider registers any address and returns the remote key 0x10111213.
static const uint64_t address = 0x0001020304050607;
static const uint64_t length = 0x08090a0b0c0d0e0f;
static const uint8_t expected_prefix[mr_descriptor_size - 1] = {0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x00, 0x0f,
        0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x13, 0x12, 0x11, 0x10};

static struct rpma_peer *peer;

static int group_setup(void **state)
{
    struct ibv_context *context;
    if (rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context)) {
        return -1;
    }
    return rpma_peer_new(context, &peer);
}

static int group_teardown(void **state)
{
    return rpma_peer_delete(&peer);
}

static void check_mr_descriptor(int usage)
{
    struct rpma_mr_local *mr;
    size_t size = 0;
    assert_int_equal(rpma_mr_reg(peer, (void *)(uintptr_t)address, (size_t)length, usage, &mr), 0);
    assert_int_equal(rpma_mr_get_descriptor_size(mr, &size), 0);
    assert_int_equal(size, mr_descriptor_size);
    for (size_t at = 1; at <= alignments; at++) {
        uint8_t buffer[mr_descriptor_size + alignments + 2];
        uint8_t expected[sizeof(buffer)];
        memset(buffer, guard, sizeof(buffer));
        memset(expected, guard, sizeof(expected));
        memcpy(&expected[at], expected_prefix, sizeof(expected_prefix));
        expected[at + mr_descriptor_size - 1] = (uint8_t)usage;
        assert_int_equal(rpma_mr_get_descriptor(mr, &buffer[at]), 0);
        assert_memory_equal(buffer, expected, sizeof(buffer));
    }
    assert_int_equal(rpma_mr_dereg(&mr), 0);
}

TEST(mr_descriptor_has_the_published_bytes_for_every_usage)
{
    check_mr_descriptor(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
    check_mr_descriptor(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    for (int usage = 1; usage <= 0xff; usage++) {
        check_mr_descriptor(usage);
    }
}

TEST(mr_descriptor_is_understood_at_every_alignment)
{
    for (size_t at = 0; at < alignments; at++) {
        uint8_t buffer[mr_descriptor_size + alignments];
        struct rpma_mr_remote *mr = NULL;
        size_t size = 0;
        int flush_type = 0;
        memset(buffer, guard, sizeof(buffer));
        memcpy(&buffer[at], expected_prefix, sizeof(expected_prefix));
        buffer[at + mr_descriptor_size - 1] = 0x21;
        assert_int_equal(rpma_mr_remote_from_descriptor(&buffer[at], mr_descriptor_size, &mr), 0);
        assert_int_equal(rpma_mr_remote_get_size(mr, &size), 0);
        assert_true(size == length);
        assert_int_equal(rpma_mr_remote_get_flush_type(mr, &flush_type), 0);
        assert_int_equal(flush_type, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
        assert_int_equal(rpma_mr_remote_delete(&mr), 0);
    }
}

TEST(peer_cfg_descriptor_is_one_byte)
{
    const struct {
        uint8_t received;
        uint8_t sent;
    } rows[] = {{0, 0}, {1, 1}, {2, 1}, {0xff, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rpma_peer_cfg *cfg = NULL;
        size_t size = 0;
        uint8_t buffer[3] = {guard, guard, guard};
        assert_int_equal(rpma_peer_cfg_from_descriptor(&rows[i].received, 1, &cfg), 0);
        assert_int_equal(rpma_peer_cfg_get_descriptor_size(cfg, &size), 0);
        assert_int_equal(size, 1);
        assert_int_equal(rpma_peer_cfg_get_descriptor(cfg, &buffer[1]), 0);
        assert_int_equal(buffer[0], guard);
        assert_int_equal(buffer[1], rows[i].sent);
        assert_int_equal(buffer[2], guard);
        assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
    }
}

GROUP_FIXTURE(group_setup, group_teardown)

// SPDX-License-Identifier: BSD-3-Clause
/* The 21-byte descriptor of a region: address, length, key (little-endian) and usage. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(descriptor);

#define LENGTH_AT 8
#define KEY_AT 16
#define USAGE_AT 20
#define UNTOUCHED ((struct rpma_mr_remote *)(uintptr_t)64)

static const unsigned char sample[DESCRIPTOR_SIZE + 4] = {7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 19, 18,
        17, 16, RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, 0xff, 0xff, 0xff, 0xff};

static char memory[8192];

static void describe(size_t size, int usage, unsigned char descriptor[DESCRIPTOR_SIZE])
{
    struct rpma_mr_local *mr = NULL;
    assert_done(rpma_mr_reg(new_peer(), memory, size, usage, &mr));
    assert_done(rpma_mr_get_descriptor(mr, descriptor));
}

static uint64_t little_endian(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0;
    while (count--)
        value = value << 8 | bytes[count];
    return value;
}

static struct rpma_mr_remote *parsed(const void *descriptor, size_t size)
{
    struct rpma_mr_remote *remote = NULL;
    assert_done(rpma_mr_remote_from_descriptor(descriptor, size, &remote));
    assert_non_null(remote);
    return remote;
}

static void refused(const void *descriptor, size_t size)
{
    struct rpma_mr_remote *remote = UNTOUCHED;
    assert_rpma(rpma_mr_remote_from_descriptor(descriptor, size, &remote), RPMA_E_INVAL);
    assert_ptr_equal(remote, UNTOUCHED);
}

CASE(it_has_21_bytes)
{
    size_t size = 0;
    assert_done(rpma_mr_get_descriptor_size(new_region(new_peer(), 4096, USAGE_ALL).mr, &size));
    assert_int_equal(size, DESCRIPTOR_SIZE);
}

CASE(it_begins_with_the_address_and_the_length)
{
    unsigned char descriptor[DESCRIPTOR_SIZE];
    describe(4001, USAGE_ALL, descriptor);
    assert_int_equal(little_endian(descriptor, 8), (uintptr_t)memory);
    assert_int_equal(little_endian(descriptor + LENGTH_AT, 8), 4001);
}

CASE(it_has_a_key_that_differs_between_regions)
{
    struct rpma_peer *peer = new_peer();
    unsigned char first[DESCRIPTOR_SIZE], second[DESCRIPTOR_SIZE];
    assert_done(rpma_mr_get_descriptor(new_region(peer, 4096, USAGE_ALL).mr, first));
    assert_done(rpma_mr_get_descriptor(new_region(peer, 4096, USAGE_ALL).mr, second));
    assert_int_not_equal(little_endian(first + KEY_AT, 4), little_endian(second + KEY_AT, 4));
}

#define USAGES(ROW)                                                                                                    \
    ROW(read_src, RPMA_MR_USAGE_READ_SRC)                                                                              \
    ROW(read_dst, RPMA_MR_USAGE_READ_DST)                                                                              \
    ROW(write_src, RPMA_MR_USAGE_WRITE_SRC)                                                                            \
    ROW(write_dst, RPMA_MR_USAGE_WRITE_DST)                                                                            \
    ROW(flush_type_visibility, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)                                                    \
    ROW(flush_type_persistent, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)                                                    \
    ROW(send, RPMA_MR_USAGE_SEND)                                                                                      \
    ROW(recv, RPMA_MR_USAGE_RECV)                                                                                      \
    ROW(all_bits, 0xff)

#define USAGE_CASE(name, usage)                                                                                        \
    CASE(it_ends_with_the_usage_##name)                                                                                \
    {                                                                                                                  \
        unsigned char descriptor[DESCRIPTOR_SIZE];                                                                     \
        describe(4096, usage, descriptor);                                                                             \
        assert_int_equal(descriptor[USAGE_AT], usage);                                                                 \
    }
USAGES(USAGE_CASE)

CASE(it_is_written_at_any_alignment_and_nothing_around_it)
{
    struct region region = new_region(new_peer(), 4096, USAGE_ALL);
    unsigned char expected[DESCRIPTOR_SIZE];
    assert_done(rpma_mr_get_descriptor(region.mr, expected));
    for (size_t shift = 1; shift <= DESCRIPTOR_SIZE; ++shift) {
        unsigned char bytes[DESCRIPTOR_SIZE * 3];
        memset(bytes, 0xaa, sizeof(bytes));
        assert_done(rpma_mr_get_descriptor(region.mr, bytes + shift));
        assert_memory_equal(bytes + shift, expected, DESCRIPTOR_SIZE);
        for (size_t i = 0; i < sizeof(bytes); ++i) {
            if (i < shift || i >= shift + DESCRIPTOR_SIZE)
                assert_int_equal(bytes[i], 0xaa);
        }
    }
}

CASE(it_is_read_at_any_alignment)
{
    for (size_t shift = 0; shift < DESCRIPTOR_SIZE; ++shift) {
        unsigned char bytes[DESCRIPTOR_SIZE * 2];
        memset(bytes, 0xaa, sizeof(bytes));
        memcpy(bytes + shift, sample, DESCRIPTOR_SIZE);
        size_t size = 0;
        assert_done(rpma_mr_remote_get_size(parsed(bytes + shift, DESCRIPTOR_SIZE), &size));
        assert_int_equal(size, UINT64_C(0x08090a0b0c0d0e0f));
    }
}

CASE(surplus_bytes_are_ignored)
{
    size_t size = 0;
    int flush_type = 0;
    struct rpma_mr_remote *remote = parsed(sample, sizeof(sample));
    assert_done(rpma_mr_remote_get_size(remote, &size));
    assert_done(rpma_mr_remote_get_flush_type(remote, &flush_type));
    assert_int_equal(size, UINT64_C(0x08090a0b0c0d0e0f));
    assert_int_equal(flush_type, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
}

CALL_CASE(twenty_bytes_are_refused, refused(sample, DESCRIPTOR_SIZE - 1));

CASE(too_few_bytes_are_not_read)
{
    refused((const void *)(uintptr_t)64, 0);
    refused((const void *)(uintptr_t)64, 1);
}

CASE(a_descriptor_without_usage_is_rejected)
{
    unsigned char descriptor[DESCRIPTOR_SIZE];
    memcpy(descriptor, sample, sizeof(descriptor));
    descriptor[USAGE_AT] = 0;
    refused(descriptor, sizeof(descriptor));
}

#define FLUSH_TYPES(ROW)                                                                                               \
    ROW(none, 0)                                                                                                       \
    ROW(visibility, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)                                                               \
    ROW(persistent, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)                                                               \
    ROW(both, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

#define FLUSH_TYPE_CASE(name, bits)                                                                                    \
    CASE(the_flush_type_##name##_is_told)                                                                              \
    {                                                                                                                  \
        unsigned char descriptor[DESCRIPTOR_SIZE];                                                                     \
        int flush_type = 77;                                                                                           \
        memcpy(descriptor, sample, sizeof(descriptor));                                                                \
        descriptor[USAGE_AT] = RPMA_MR_USAGE_WRITE_DST | (bits);                                                       \
        assert_done(rpma_mr_remote_get_flush_type(parsed(descriptor, sizeof(descriptor)), &flush_type));               \
        assert_int_equal(flush_type, bits);                                                                            \
    }
FLUSH_TYPES(FLUSH_TYPE_CASE)

CASE(the_size_of_a_region_arrives)
{
    size_t size = 0;
    assert_done(rpma_mr_remote_get_size(remote_of(new_region(new_peer(), 12345, USAGE_ALL)), &size));
    assert_int_equal(size, 12345);
}

CASE(deleting_a_remote_region_consumes_it)
{
    struct rpma_mr_remote *remote = parsed(sample, DESCRIPTOR_SIZE);
    assert_done(rpma_mr_remote_delete(&remote));
    assert_null(remote);
    assert_done(rpma_mr_remote_delete(&remote));
}

CASE(a_remote_region_may_go_as_soon_as_the_operation_is_posted)
{
    struct pair pair = connect_pair();
    fill(pair.client.memory.ptr, MEMORY_SIZE, 3);
    assert_done(
            rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, MEMORY_SIZE, ALWAYS, &pair));
    assert_done(rpma_mr_remote_delete(&pair.client.remote));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    assert_filled(pair.server.memory.ptr, MEMORY_SIZE, 3);
}

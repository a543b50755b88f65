// SPDX-License-Identifier: BSD-3-Clause
/* Operations that are rejected before they are posted. */
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <sys/mman.h>

SUITE(range);

/* Names that the calls in the tables use. */
struct operands {
    struct rpma_conn *conn;
    struct rpma_mr_remote *remote;
    struct rpma_mr_local *mr;
};

/* Checks that the connection works and nothing was posted: the next completion belongs to the next operation. */
static void assert_nothing_posted(const struct pair *pair)
{
    assert_done(rpma_write(pair->client.conn, NULL, 0, NULL, 0, 0, ALWAYS, pair));
    expect_success(pair->client.cq, IBV_WC_RDMA_WRITE, pair);
}

#define FLAGS_0(ROW)                                                                                                   \
    ROW(a_read, rpma_read(o.conn, o.mr, 0, o.remote, 0, 8, 0, NULL))                                                   \
    ROW(a_write, rpma_write(o.conn, o.remote, 0, o.mr, 0, 8, 0, NULL))                                                 \
    ROW(a_write_with_immediate, rpma_write_with_imm(o.conn, o.remote, 0, o.mr, 0, 8, 0, 1, NULL))                      \
    ROW(an_atomic_write, rpma_atomic_write(o.conn, o.remote, 0, "8 bytes", 0, NULL))                                   \
    ROW(a_flush, rpma_flush(o.conn, o.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, 0, NULL))                              \
    ROW(a_send, rpma_send(o.conn, o.mr, 0, 8, 0, NULL))                                                                \
    ROW(a_send_with_immediate, rpma_send_with_imm(o.conn, o.mr, 0, 8, 0, 1, NULL))

#define EMPTY(ROW)                                                                                                     \
    ROW(read_with_a_length, rpma_read(o.conn, NULL, 0, NULL, 0, 8, ALWAYS, NULL))                                      \
    ROW(read_with_a_local_offset, rpma_read(o.conn, NULL, 8, NULL, 0, 0, ALWAYS, NULL))                                \
    ROW(read_with_a_remote_offset, rpma_read(o.conn, NULL, 0, NULL, 8, 0, ALWAYS, NULL))                               \
    ROW(write_with_a_length, rpma_write(o.conn, NULL, 0, NULL, 0, 8, ALWAYS, NULL))                                    \
    ROW(write_with_a_remote_offset, rpma_write(o.conn, NULL, 8, NULL, 0, 0, ALWAYS, NULL))                             \
    ROW(write_with_a_local_offset, rpma_write(o.conn, NULL, 0, NULL, 8, 0, ALWAYS, NULL))                              \
    ROW(write_with_immediate_and_a_length, rpma_write_with_imm(o.conn, NULL, 0, NULL, 0, 8, ALWAYS, 1, NULL))          \
    ROW(send_with_an_offset, rpma_send(o.conn, NULL, 8, 0, ALWAYS, NULL))                                              \
    ROW(send_with_immediate_and_an_offset, rpma_send_with_imm(o.conn, NULL, 8, 0, ALWAYS, 1, NULL))                    \
    ROW(recv_with_an_offset, rpma_recv(o.conn, NULL, 8, 0, NULL))

#define MISALIGNED(ROW)                                                                                                \
    ROW(1, rpma_atomic_write(o.conn, o.remote, 1, "8 bytes", ALWAYS, NULL))                                            \
    ROW(4, rpma_atomic_write(o.conn, o.remote, 4, "8 bytes", ALWAYS, NULL))                                            \
    ROW(12, rpma_atomic_write(o.conn, o.remote, 12, "8 bytes", ALWAYS, NULL))

/* name, call: a range beyond the local or the remote region, which have MEMORY_SIZE bytes */
#define OUTSIDE(ROW)                                                                                                   \
    ROW(a_read_beyond_the_remote_region, rpma_read(o.conn, o.mr, 0, o.remote, MEMORY_SIZE - 7, 8, ALWAYS, NULL))       \
    ROW(a_read_beyond_the_local_region, rpma_read(o.conn, o.mr, MEMORY_SIZE - 7, o.remote, 0, 8, ALWAYS, NULL))        \
    ROW(a_read_whose_offset_wraps_around, rpma_read(o.conn, o.mr, 0, o.remote, SIZE_MAX - 3, 8, ALWAYS, NULL))         \
    ROW(a_write_beyond_the_remote_region, rpma_write(o.conn, o.remote, MEMORY_SIZE, o.mr, 0, 1, ALWAYS, NULL))         \
    ROW(a_write_beyond_the_local_region, rpma_write(o.conn, o.remote, 0, o.mr, MEMORY_SIZE, 1, ALWAYS, NULL))          \
    ROW(a_write_longer_than_the_regions, rpma_write(o.conn, o.remote, 0, o.mr, 0, MEMORY_SIZE + 1, ALWAYS, NULL))      \
    ROW(a_write_whose_length_exceeds_32_bits,                                                                          \
            rpma_write(o.conn, o.remote, 0, o.mr, 0, (size_t)UINT32_MAX + 9, ALWAYS, NULL))                            \
    ROW(a_write_whose_offset_wraps_around, rpma_write(o.conn, o.remote, 0, o.mr, SIZE_MAX, 2, ALWAYS, NULL))           \
    ROW(a_write_with_immediate_beyond_the_remote_region,                                                               \
            rpma_write_with_imm(o.conn, o.remote, MEMORY_SIZE - 1, o.mr, 0, 2, ALWAYS, 1, NULL))                       \
    ROW(a_write_with_immediate_beyond_the_local_region,                                                                \
            rpma_write_with_imm(o.conn, o.remote, 0, o.mr, MEMORY_SIZE - 1, 2, ALWAYS, 1, NULL))                       \
    ROW(an_atomic_write_beyond_the_region, rpma_atomic_write(o.conn, o.remote, MEMORY_SIZE, "8 bytes", ALWAYS, NULL))  \
    ROW(a_flush_beyond_the_region,                                                                                     \
            rpma_flush(o.conn, o.remote, 8, MEMORY_SIZE, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL))                    \
    ROW(a_flush_whose_offset_wraps_around,                                                                             \
            rpma_flush(o.conn, o.remote, SIZE_MAX, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL))                       \
    ROW(a_flush_of_an_unknown_type, rpma_flush(o.conn, o.remote, 0, 8, (enum rpma_flush_type)7, ALWAYS, NULL))         \
    ROW(a_flush_of_a_negative_type, rpma_flush(o.conn, o.remote, 0, 8, (enum rpma_flush_type) - 1, ALWAYS, NULL))      \
    ROW(a_send_beyond_the_region, rpma_send(o.conn, o.mr, 1, MEMORY_SIZE, ALWAYS, NULL))                               \
    ROW(a_send_whose_length_exceeds_32_bits, rpma_send(o.conn, o.mr, 0, (size_t)UINT32_MAX + 9, ALWAYS, NULL))         \
    ROW(a_send_with_immediate_beyond_the_region, rpma_send_with_imm(o.conn, o.mr, 1, MEMORY_SIZE, ALWAYS, 1, NULL))    \
    ROW(a_receive_beyond_the_region, rpma_recv(o.conn, o.mr, MEMORY_SIZE - 1, 2, NULL))

#define REFUSED(name, call)                                                                                            \
    CASE(name)                                                                                                         \
    {                                                                                                                  \
        struct pair pair = connect_pair();                                                                             \
        struct operands o = {pair.client.conn, pair.client.remote, pair.client.memory.mr};                             \
        assert_rpma(call, RPMA_E_INVAL);                                                                               \
        assert_nothing_posted(&pair);                                                                                  \
    }
#define FLAGS_0_CASE(name, call) REFUSED(name##_with_flags_0_is_refused, call)
#define EMPTY_CASE(name, call) REFUSED(a_##name##_but_no_region_is_refused, call)
#define MISALIGNED_CASE(offset, call) REFUSED(an_atomic_write_at_offset_##offset##_is_refused, call)
#define OUTSIDE_CASE(name, call) REFUSED(name##_is_refused, call)
FLAGS_0(FLAGS_0_CASE)
EMPTY(EMPTY_CASE)
MISALIGNED(MISALIGNED_CASE)
OUTSIDE(OUTSIDE_CASE)

/* Reserves only address space for a region of that length. On a device that pins memory the case needs real memory. */
static struct region region_longer_than_a_message(struct rpma_peer *peer, size_t *limit)
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(device(), 1, &port), 0);
    *limit = port.max_msg_sz < UINT32_C(1) << 31 ? port.max_msg_sz : UINT32_C(1) << 31;
    struct region region = {.size = *limit + 1};
    region.ptr = mmap(NULL, region.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region.ptr == MAP_FAILED)
        skip_because("cannot map %zu bytes of memory", region.size);
    if (rpma_mr_reg(peer, region.ptr, region.size, USAGE_ALL, &region.mr))
        skip_because("the device does not register %zu bytes of memory: %s", region.size, strerror(errno));
    return region;
}

CASE(a_write_longer_than_the_longest_message_is_refused)
{
    struct pair pair = connect_pair();
    size_t limit;
    struct region region = region_longer_than_a_message(pair.peer, &limit);
    assert_rpma(
            rpma_write(pair.client.conn, remote_of(region), 0, region.mr, 0, limit + 1, ALWAYS, NULL), RPMA_E_INVAL);
}

CASE(a_send_longer_than_the_longest_message_is_refused)
{
    struct pair pair = connect_pair();
    size_t limit;
    struct region region = region_longer_than_a_message(pair.peer, &limit);
    assert_rpma(rpma_send(pair.client.conn, region.mr, 0, limit + 1, ALWAYS, NULL), RPMA_E_INVAL);
}

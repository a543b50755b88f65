// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <sys/mman.h>

SUITE(mr);

#define UNTOUCHED ((struct rpma_mr_local *)(uintptr_t)64)

static char memory[8192];

static void registers(int usage)
{
    struct rpma_mr_local *mr = NULL;
    assert_done(rpma_mr_reg(new_peer(), memory, sizeof(memory), usage, &mr));
    assert_non_null(mr);
    assert_done(rpma_mr_dereg(&mr));
    assert_null(mr);
    assert_done(rpma_mr_dereg(&mr));
    assert_null(mr);
}

static void refused(void *ptr, size_t size, int usage, int expected)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_mr_local *mr = UNTOUCHED;
    assert_rpma(rpma_mr_reg(peer, ptr, size, usage, &mr), expected);
    assert_ptr_equal(mr, UNTOUCHED);
}

/* A device with native flush may reject a region of ordinary memory with FLUSH_TYPE_PERSISTENT as the only flush
 * type. */
#define USAGES(ROW)                                                                                                    \
    ROW(a_source_of_reads, RPMA_MR_USAGE_READ_SRC)                                                                     \
    ROW(a_destination_of_reads, RPMA_MR_USAGE_READ_DST)                                                                \
    ROW(a_source_of_writes, RPMA_MR_USAGE_WRITE_SRC)                                                                   \
    ROW(a_destination_of_writes, RPMA_MR_USAGE_WRITE_DST)                                                              \
    ROW(a_target_of_flushes_to_visibility, RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)                                        \
    ROW(a_target_of_flushes_to_persistence, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)                                       \
    ROW(a_source_of_messages, RPMA_MR_USAGE_SEND)                                                                      \
    ROW(a_destination_of_messages, RPMA_MR_USAGE_RECV)                                                                 \
    ROW(everything, 0xff)

#define USAGE_CASE(name, usage) CALL_CASE(memory_is_registered_as_##name, registers(usage));
USAGES(USAGE_CASE)

#define BAD_USAGES(ROW)                                                                                                \
    ROW(empty, 0)                                                                                                      \
    ROW(an_unknown_bit, 0x100)                                                                                         \
    ROW(an_unknown_bit_beside_known_ones, 0x1ff)                                                                       \
    ROW(all_bits, ~0)                                                                                                  \
    ROW(the_sign_bit, INT32_MIN)

#define BAD_USAGE_CASE(name, usage)                                                                                    \
    CALL_CASE(the_usage_##name##_is_refused, refused(memory, sizeof(memory), usage, RPMA_E_INVAL));
BAD_USAGES(BAD_USAGE_CASE)

CALL_CASE(a_region_of_0_bytes_is_refused, refused(memory, 0, RPMA_MR_USAGE_READ_SRC, RPMA_E_INVAL));
/* The lowest pages are never mapped (vm.mmap_min_addr). Another mapping could reuse a hole left by munmap(). */
CALL_CASE(memory_that_is_not_mapped_is_a_provider_error,
        refused((void *)4096, 8192, RPMA_MR_USAGE_READ_SRC, RPMA_E_PROVIDER));

CASE(a_region_need_not_be_aligned)
{
    struct rpma_peer *peer = new_peer();
    for (size_t shift = 1; shift < 16; ++shift) {
        struct rpma_mr_local *mr = NULL;
        void *ptr = NULL;
        size_t size = 0;
        assert_done(rpma_mr_reg(peer, memory + shift, 4001, USAGE_ALL, &mr));
        assert_done(rpma_mr_get_ptr(mr, &ptr));
        assert_done(rpma_mr_get_size(mr, &size));
        assert_ptr_equal(ptr, memory + shift);
        assert_int_equal(size, 4001);
        assert_done(rpma_mr_dereg(&mr));
    }
}

CASE(a_region_may_have_1_byte)
{
    struct rpma_mr_local *mr = NULL;
    size_t size = 0;
    assert_done(rpma_mr_reg(new_peer(), memory, 1, USAGE_ALL, &mr));
    assert_done(rpma_mr_get_size(mr, &size));
    assert_int_equal(size, 1);
}

CASE(memory_may_be_registered_more_than_once)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_mr_local *first = NULL, *second = NULL;
    assert_done(rpma_mr_reg(peer, memory, sizeof(memory), USAGE_ALL, &first));
    assert_done(rpma_mr_reg(peer, memory, sizeof(memory), USAGE_ALL, &second));
    assert_ptr_not_equal(first, second);
    assert_done(rpma_mr_dereg(&first));
    unsigned char descriptor[DESCRIPTOR_SIZE];
    assert_done(rpma_mr_get_descriptor(second, descriptor));
    assert_done(rpma_mr_dereg(&second));
}

CASE(many_regions_may_exist)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_mr_local *mrs[128] = {NULL};
    for (size_t i = 0; i < 128; ++i)
        assert_done(rpma_mr_reg(peer, memory + i * 64, 64, USAGE_ALL, &mrs[i]));
    for (size_t i = 0; i < 128; ++i)
        assert_done(rpma_mr_dereg(&mrs[i]));
    assert_done(rpma_peer_delete(&peer));
}

CASE(registering_leaves_the_memory_alone)
{
    fill(memory, sizeof(memory), 5);
    registers(0xff);
    assert_filled(memory, sizeof(memory), 5);
}

CASE(a_mapped_file_is_registered)
{
    int fd = memfd_create("conformance", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8192), 0);
    void *ptr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(ptr != MAP_FAILED);
    struct rpma_mr_local *mr = NULL;
    assert_done(rpma_mr_reg(new_peer(), ptr, 8192, USAGE_ALL, &mr));
    assert_done(rpma_mr_dereg(&mr));
}

CASE(read_only_memory_can_be_a_source_of_reads)
{
    void *ptr = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(ptr != MAP_FAILED);
    struct rpma_mr_local *mr = NULL;
    assert_done(rpma_mr_reg(new_peer(), ptr, 4096, RPMA_MR_USAGE_READ_SRC, &mr));
}

static void advice(size_t offset, size_t length, int expected)
{
    struct region region = new_region(new_peer(), MEMORY_SIZE, USAGE_ALL);
    assert_rpma(rpma_mr_advise(region.mr, offset, length, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0), expected);
}

CASE(advice_within_the_region_is_passed_on)
{
    struct region region = new_region(new_peer(), MEMORY_SIZE, USAGE_ALL);
    int result = rpma_mr_advise(region.mr, 4096, 4096, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH);
    if (result == RPMA_E_NOSUPP)
        skip_because("the device does not support ibv_advise_mr");
    assert_rpma(result, 0);
}

CASE(unsupported_advice_has_a_distinct_error)
{
    struct region region = new_region(new_peer(), MEMORY_SIZE, USAGE_ALL);
    int result = rpma_mr_advise(region.mr, 0, 4096, IBV_ADVISE_MR_ADVICE_PREFETCH, 0);
    if (result == 0)
        skip_because("the device supports ibv_advise_mr");
    assert_rpma(result, RPMA_E_NOSUPP);
}

CALL_CASE(advice_past_the_end_of_the_region_is_refused, advice(0, MEMORY_SIZE + 1, RPMA_E_INVAL));
CALL_CASE(advice_from_the_end_of_the_region_is_refused, advice(MEMORY_SIZE, 1, RPMA_E_INVAL));
CALL_CASE(advice_about_a_range_that_wraps_around_is_refused, advice(SIZE_MAX, 2, RPMA_E_INVAL));

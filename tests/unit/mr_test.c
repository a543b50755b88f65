// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

enum {
    ALL_USAGES = 0xff,
    ODP_NEEDED = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ
};

// The access flags of the only registration made for a usage.
static int access_for(int usage)
{
    fake_forget_calls();
    assert_int_equal(rpma_mr_reg(peer, test_memory, 3, usage, &mr), 0);
    assert_calls("ibv_reg_mr");
    assert_ptr_equal(fake_seen()->mr_addr, test_memory);
    assert_int_equal(fake_seen()->mr_length, 3);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    return fake_seen()->access;
}

TEST(each_usage_grants_the_access_it_needs)
{
    peer = make_peer();
    assert_int_equal(access_for(RPMA_MR_USAGE_READ_SRC), IBV_ACCESS_REMOTE_READ);
    assert_int_equal(access_for(RPMA_MR_USAGE_READ_DST), IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(access_for(RPMA_MR_USAGE_WRITE_SRC), IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(access_for(RPMA_MR_USAGE_WRITE_DST), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(access_for(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY), IBV_ACCESS_REMOTE_READ);
    assert_int_equal(access_for(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT), IBV_ACCESS_REMOTE_READ);
    assert_int_equal(access_for(RPMA_MR_USAGE_SEND), 0);
    assert_int_equal(access_for(RPMA_MR_USAGE_RECV), IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(access_for(ALL_USAGES), 7);
}

TEST(iwarp_answers_a_read_by_a_remote_write)
{
    fake_device()->transport = IBV_TRANSPORT_IWARP;
    peer = make_peer();
    assert_int_equal(access_for(RPMA_MR_USAGE_READ_DST), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(access_for(RPMA_MR_USAGE_RECV), IBV_ACCESS_LOCAL_WRITE);
}

TEST(native_flush_keeps_the_region_readable_for_emulated_flush)
{
    fake_make_native();
    peer = make_peer();
    assert_int_equal(access_for(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY), 0x104);
    assert_int_equal(access_for(RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT), 0x204);
    assert_int_equal(access_for(RPMA_MR_USAGE_READ_SRC), IBV_ACCESS_REMOTE_READ);
}

TEST(memory_that_cannot_be_pinned_is_registered_on_demand)
{
    fake_device()->odp_general = IBV_ODP_SUPPORT;
    fake_device()->odp_rc = ODP_NEEDED;
    fake_device()->unpinnable = true;
    peer = make_peer();
    fake_forget_calls();
    assert_done(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_READ_SRC, &mr));
    assert_calls("ibv_reg_mr ibv_reg_mr");
    assert_int_equal(fake_seen()->access, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
    assert_int_equal(rpma_mr_dereg(&mr), 0);

    fake_fail_call(2, EPERM, false);
    fake_forget_calls();
    assert_provider(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_READ_SRC, &mr), EOPNOTSUPP);
    assert_calls("ibv_reg_mr ibv_reg_mr");
}

TEST(without_on_demand_paging_there_is_one_attempt)
{
    fake_device()->unpinnable = true;
    peer = make_peer();
    fake_forget_calls();
    assert_provider(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_READ_SRC, &mr), EOPNOTSUPP);
    assert_calls("ibv_reg_mr");
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 1);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "ODP"));
}

TEST(memory_refused_for_persistent_flush_is_flushed_to_visibility)
{
    const int errors[] = {EINVAL, EOPNOTSUPP, ENOTSUP};
    fake_make_native();
    peer = make_peer();
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); ++i) {
        fake_device()->persistent_error = errors[i];
        assert_done(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &mr));
        assert_int_equal(fake_seen()->access, IBV_ACCESS_REMOTE_READ | FAKE_ACCESS_FLUSH_GLOBAL);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), i + 1);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
    }
}

TEST(the_fallback_keeps_everything_else_the_usage_needs)
{
    fake_make_native();
    fake_device()->persistent_error = EINVAL;
    fake_device()->odp_general = IBV_ODP_SUPPORT;
    fake_device()->odp_rc = ODP_NEEDED;
    fake_device()->unpinnable = true;
    peer = make_peer();
    assert_int_equal(rpma_mr_reg(peer, test_memory, 8, ALL_USAGES, &mr), 0);
    assert_int_equal(fake_seen()->access, 7 | FAKE_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_ON_DEMAND);
}

// Combination of usages that no region has (see mr.cpp). Peers still read the flush types from it.
TEST(the_descriptor_of_a_region_shows_that_it_reaches_visibility_only)
{
    fake_make_native();
    fake_device()->persistent_error = EINVAL;
    peer = make_peer();
    const int usages[] = {RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, ALL_USAGES,
            RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT};
    for (size_t i = 0; i < sizeof(usages) / sizeof(usages[0]); ++i) {
        unsigned char desc[21];
        assert_int_equal(rpma_mr_reg(peer, test_memory, 8, usages[i], &mr), 0);
        assert_int_equal(rpma_mr_get_descriptor(mr, desc), 0);
        const int local = RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
        assert_int_equal(desc[20], (usages[i] & ~RPMA_MR_USAGE_WRITE_DST) | local);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
    }
}

static int native_flush_type(int usage)
{
    int flush_type = -1;
    assert_int_equal(rpma_mr_reg(peer, test_memory, 8, usage, &mr), 0);
    assert_int_equal(rpma_mr_get_native_flush_type(mr, &flush_type), 0);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    return flush_type;
}

TEST(a_region_reports_the_level_of_native_flushes)
{
    const int visibility = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, persistent = RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    peer = make_peer();
    assert_int_equal(native_flush_type(ALL_USAGES), 0);
    drop_objects();

    // The local flush method does not affect the result.
    fake_make_native();
    setenv("RPMA_FLUSH_METHOD", "emulated", 1);
    peer = make_peer();
    for (int usage = 1; usage <= ALL_USAGES; ++usage)
        assert_int_equal(native_flush_type(usage), usage & (visibility | persistent));
    fake_device()->persistent_error = EINVAL;
    assert_int_equal(native_flush_type(ALL_USAGES), visibility);
    assert_int_equal(native_flush_type(persistent), visibility);
    assert_int_equal(native_flush_type(visibility), visibility);
    assert_int_equal(native_flush_type(RPMA_MR_USAGE_WRITE_DST), 0);
}

TEST(another_refusal_of_persistent_flush_is_final)
{
    fake_make_native();
    peer = make_peer();
    struct rpma_mr_local *created = BOGUS;
    fake_device()->persistent_error = ENOMEM;
    fake_forget_calls();
    assert_provider(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &created), ENOMEM);
    assert_calls("ibv_reg_mr");

    fake_fail_call(1, EINVAL, true);
    assert_provider(rpma_mr_reg(peer, test_memory, 8, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &created), EINVAL);
    assert_ptr_equal(created, BOGUS);
}

TEST(the_descriptor_size_is_known_without_an_object)
{
    size_t size = 0;
    assert_int_equal(rpma_mr_get_descriptor_size(BOGUS, &size), 0);
    assert_int_equal(size, 21);
}

TEST(a_parsed_descriptor_is_logged_in_full)
{
    drop_remote(make_remote(0x0001020304050607, 0x08090a0b0c0d0e0f, 0x21));
    assert_int_equal(log_count(RPMA_LOG_LEVEL_DEBUG), 1);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_DEBUG), "1020304050607"));
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_DEBUG), "8090a0b0c0d0e0f"));
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_DEBUG), "10111213"));
}

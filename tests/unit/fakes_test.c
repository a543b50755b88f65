// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// The other tests depend on this: the fake stack detects wrong calls of the library.

static int begin(void **state)
{
    return begin_test(state);
}

static int end(void **state)
{
    fake_reset();
    return 0;
}

#define FAKES_TEST(name) DEFINE_TEST(name, begin, end)

static bool noticed(const char *text)
{
    return strstr(fake_problems(), text) != NULL;
}

FAKES_TEST(an_object_that_is_left_over_is_noticed)
{
    assert_string_equal(fake_problems(), "");
    ibv_alloc_pd(fake_context());
    rdma_create_event_channel();
    assert_true(noticed("1 protection domain left over"));
    assert_true(noticed("1 event channel left over"));
}

FAKES_TEST(an_object_that_others_need_stays)
{
    struct ibv_comp_channel *const channel = ibv_create_comp_channel(fake_context());
    struct ibv_cq *const cq = ibv_create_cq(fake_context(), 1, NULL, channel, 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    assert_true(noticed("1 completion channel left over"));
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_string_equal(fake_problems(), "");
}

FAKES_TEST(an_object_that_is_destroyed_twice_is_noticed)
{
    struct ibv_pd *const pd = ibv_alloc_pd(fake_context());
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_dealloc_pd(pd), EINVAL);
    assert_true(noticed("ibv_dealloc_pd used a dead or foreign object"));
}

FAKES_TEST(an_event_channel_destroyed_under_an_identifier_is_noticed)
{
    struct rdma_event_channel *const channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    rdma_destroy_event_channel(channel);
    assert_true(noticed("rdma_destroy_event_channel with an identifier on it"));
}

FAKES_TEST(a_failed_destroy_is_no_leak)
{
    struct ibv_pd *const pd = ibv_alloc_pd(fake_context());
    fake_fail_call(1, EIO, false);
    assert_int_equal(ibv_dealloc_pd(pd), EIO);
    assert_string_equal(fake_failed_call(), "ibv_dealloc_pd");
    assert_string_equal(fake_problems(), "");
}

FAKES_TEST(an_allocation_that_is_left_over_is_noticed)
{
    struct rpma_peer_cfg *pcfg = NULL;
    const long before = fake_libc_allocations();
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    assert_int_equal(fake_libc_allocations(), before + 1);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
    assert_int_equal(fake_libc_allocations(), before);
}

FAKES_TEST(calls_fail_as_configured)
{
    fake_fail_call(2, 50, true);
    struct ibv_pd *const pd = ibv_alloc_pd(fake_context());
    assert_non_null(pd);
    assert_null(ibv_alloc_pd(fake_context()));
    assert_int_equal(errno, 50);
    assert_null(rdma_create_event_channel());
    assert_int_equal(errno, 51);
    fake_fail_call(0, 0, false);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_calls("ibv_alloc_pd ibv_alloc_pd rdma_create_event_channel ibv_dealloc_pd");
}

// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

TEST(both_sizes_are_20_at_first)
{
    struct rpma_srq_cfg *cfg = NULL;
    uint32_t rq_size = 0, rcq_size = 0;
    assert_int_equal(rpma_srq_cfg_new(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_get_rq_size(cfg, &rq_size), 0);
    assert_int_equal(rpma_srq_cfg_get_rcq_size(cfg, &rcq_size), 0);
    assert_int_equal(rq_size, 20);
    assert_int_equal(rcq_size, 20);
    assert_int_equal(rpma_srq_cfg_delete(&cfg), 0);
    assert_null(cfg);
}

TEST(sizes_are_stored)
{
    struct rpma_srq_cfg *cfg = NULL;
    uint32_t rq_size = 0, rcq_size = 0;
    assert_int_equal(rpma_srq_cfg_new(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_set_rq_size(cfg, 0), 0);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(cfg, UINT32_MAX), 0);
    assert_int_equal(rpma_srq_cfg_get_rq_size(cfg, &rq_size), 0);
    assert_int_equal(rpma_srq_cfg_get_rcq_size(cfg, &rcq_size), 0);
    assert_int_equal(rq_size, 0);
    assert_int_equal(rcq_size, UINT32_MAX);
    assert_int_equal(rpma_srq_cfg_delete(&cfg), 0);
}

TEST(new_leaves_its_output_alone_without_memory)
{
    struct rpma_srq_cfg *cfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, false);
    assert_int_equal(rpma_srq_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_ptr_equal(cfg, BOGUS);
}

TEST(deleting_nothing_succeeds)
{
    struct rpma_srq_cfg *cfg = NULL;
    assert_int_equal(rpma_srq_cfg_delete(&cfg), 0);
}

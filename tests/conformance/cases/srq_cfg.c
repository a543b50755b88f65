// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/check.h"

SUITE(srq_cfg);

static struct rpma_srq_cfg *new_srq_cfg(void)
{
    struct rpma_srq_cfg *cfg = NULL;
    assert_done(rpma_srq_cfg_new(&cfg));
    assert_non_null(cfg);
    return cfg;
}

static void assert_srq_cfg(const struct rpma_srq_cfg *cfg, uint32_t rq_size, uint32_t rcq_size)
{
    uint32_t rq = 77, rcq = 77;
    assert_done(rpma_srq_cfg_get_rq_size(cfg, &rq));
    assert_done(rpma_srq_cfg_get_rcq_size(cfg, &rcq));
    assert_int_equal(rq, rq_size);
    assert_int_equal(rcq, rcq_size);
}

CALL_CASE(both_sizes_are_20_at_first, assert_srq_cfg(new_srq_cfg(), 20, 20));

CASE(both_sizes_read_back_as_set)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_set_rq_size(cfg, 200));
    assert_srq_cfg(cfg, 200, 20);
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, 300));
    assert_srq_cfg(cfg, 200, 300);
}

static void read_back(uint32_t size)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_set_rq_size(cfg, size));
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, size));
    assert_srq_cfg(cfg, size, size);
}

CALL_CASE(both_sizes_may_be_0, read_back(0));
CALL_CASE(the_largest_sizes_read_back_as_set, read_back(UINT32_MAX));

CASE(deleting_an_srq_cfg_consumes_it)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_delete(&cfg));
    assert_null(cfg);
    assert_done(rpma_srq_cfg_delete(&cfg));
}

// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/check.h"

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

static void both_sizes_are_20_at_first(void **state)
{
    assert_srq_cfg(new_srq_cfg(), 20, 20);
}

static void both_sizes_read_back_as_set(void **state)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_set_rq_size(cfg, 200));
    assert_srq_cfg(cfg, 200, 20);
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, 300));
    assert_srq_cfg(cfg, 200, 300);
}

static void both_sizes_may_be_0(void **state)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_set_rq_size(cfg, 0));
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, 0));
    assert_srq_cfg(cfg, 0, 0);
}

static void the_largest_sizes_read_back_as_set(void **state)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_set_rq_size(cfg, UINT32_MAX));
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, UINT32_MAX));
    assert_srq_cfg(cfg, UINT32_MAX, UINT32_MAX);
}

static void deleting_an_srq_cfg_consumes_it(void **state)
{
    struct rpma_srq_cfg *cfg = new_srq_cfg();
    assert_done(rpma_srq_cfg_delete(&cfg));
    assert_null(cfg);
    assert_done(rpma_srq_cfg_delete(&cfg));
}

static const struct test_case cases[] = {
        CASE(both_sizes_are_20_at_first),
        CASE(both_sizes_read_back_as_set),
        CASE(both_sizes_may_be_0),
        CASE(the_largest_sizes_read_back_as_set),
        CASE(deleting_an_srq_cfg_consumes_it),
};

SUITE(srq_cfg, cases);

// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <limits.h>

TEST(defaults_are_the_documented_ones)
{
    struct rpma_conn_cfg *cfg = NULL;
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    int timeout_ms = -1;
    uint32_t cq_size = 1, rcq_size = 1, sq_size = 1, rq_size = 1;
    bool shared = true;
    struct rpma_srq *srq = BOGUS;
    assert_int_equal(rpma_conn_cfg_get_timeout(cfg, &timeout_ms), 0);
    assert_int_equal(rpma_conn_cfg_get_cq_size(cfg, &cq_size), 0);
    assert_int_equal(rpma_conn_cfg_get_rcq_size(cfg, &rcq_size), 0);
    assert_int_equal(rpma_conn_cfg_get_sq_size(cfg, &sq_size), 0);
    assert_int_equal(rpma_conn_cfg_get_rq_size(cfg, &rq_size), 0);
    assert_int_equal(rpma_conn_cfg_get_compl_channel(cfg, &shared), 0);
    assert_int_equal(rpma_conn_cfg_get_srq(cfg, &srq), 0);
    assert_int_equal(timeout_ms, 1000);
    assert_int_equal(cq_size, 10);
    assert_int_equal(rcq_size, 0);
    assert_int_equal(sq_size, 10);
    assert_int_equal(rq_size, 10);
    assert_false(shared);
    assert_null(srq);
    drop_cfg(cfg);
}

TEST(sizes_are_stored)
{
    static int (*const setters[])(struct rpma_conn_cfg *, uint32_t) = {rpma_conn_cfg_set_cq_size,
            rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_set_sq_size, rpma_conn_cfg_set_rq_size};
    static int (*const getters[])(const struct rpma_conn_cfg *, uint32_t *) = {rpma_conn_cfg_get_cq_size,
            rpma_conn_cfg_get_rcq_size, rpma_conn_cfg_get_sq_size, rpma_conn_cfg_get_rq_size};
    const uint32_t values[] = {0, 1, 1234, INT_MAX, UINT32_MAX};
    struct rpma_conn_cfg *cfg = make_cfg(false, 0);
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); ++v) {
        for (uint32_t field = 0; field < 4; ++field)
            assert_int_equal(setters[field](cfg, values[v] - field), 0);
        for (uint32_t field = 0; field < 4; ++field) {
            uint32_t value = 7;
            assert_int_equal(getters[field](cfg, &value), 0);
            assert_int_equal(value, values[v] - field);
        }
    }
    drop_cfg(cfg);
}

TEST(a_negative_timeout_is_refused_and_changes_nothing)
{
    struct rpma_conn_cfg *cfg = make_cfg(false, 0);
    int timeout_ms = 0;
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, 5678), 0);
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, -1), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, INT_MIN), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_timeout(cfg, &timeout_ms), 0);
    assert_int_equal(timeout_ms, 5678);
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, 0), 0);
    assert_int_equal(rpma_conn_cfg_get_timeout(cfg, &timeout_ms), 0);
    assert_int_equal(timeout_ms, 0);
    drop_cfg(cfg);
}

TEST(the_shared_channel_can_be_switched_on_and_off)
{
    struct rpma_conn_cfg *cfg = make_cfg(true, 0);
    bool shared = false;
    assert_int_equal(rpma_conn_cfg_get_compl_channel(cfg, &shared), 0);
    assert_true(shared);
    assert_int_equal(rpma_conn_cfg_set_compl_channel(cfg, false), 0);
    assert_int_equal(rpma_conn_cfg_get_compl_channel(cfg, &shared), 0);
    assert_false(shared);
    drop_cfg(cfg);
}

TEST(an_srq_stays_when_null_is_set)
{
    struct rpma_conn_cfg *cfg = make_cfg(false, 0);
    struct rpma_srq *srq = NULL;
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, BOGUS), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_srq(cfg, &srq), 0);
    assert_ptr_equal(srq, BOGUS);
    drop_cfg(cfg);
}

TEST(new_leaves_its_output_alone_without_memory)
{
    struct rpma_conn_cfg *cfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, false);
    assert_int_equal(rpma_conn_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_ptr_equal(cfg, BOGUS);
}

TEST(deleting_nothing_succeeds)
{
    struct rpma_conn_cfg *cfg = NULL;
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_null(cfg);
}

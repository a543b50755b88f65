// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

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

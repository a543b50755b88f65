// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// Configurations.

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

TEST(the_descriptor_size_is_known_without_an_object)
{
    size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(BOGUS, &size), 0);
    assert_int_equal(size, 1);
}

TEST(constructors_leave_their_output_alone_without_memory)
{
    struct rpma_conn_cfg *cfg = BOGUS;
    struct rpma_srq_cfg *srq_cfg = BOGUS;
    struct rpma_peer_cfg *pcfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, true);
    assert_int_equal(rpma_conn_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_new(&pcfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_from_descriptor("\1", 1, &pcfg), RPMA_E_NOMEM);
    assert_ptr_equal(cfg, BOGUS);
    assert_ptr_equal(srq_cfg, BOGUS);
    assert_ptr_equal(pcfg, BOGUS);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// Configurations.

TEST(an_srq_stays_when_null_is_set)
{
    cfg = make_cfg(false, 0);
    struct rpma_srq *found = NULL;
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, BOGUS), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_cfg_get_srq(cfg, &found), 0);
    assert_ptr_equal(found, BOGUS);
}

TEST(the_descriptor_size_is_known_without_an_object)
{
    size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(BOGUS, &size), 0);
    assert_int_equal(size, 1);
}

TEST(constructors_leave_their_output_alone_without_memory)
{
    struct rpma_conn_cfg *conn_cfg = BOGUS;
    struct rpma_srq_cfg *srq_cfg = BOGUS;
    struct rpma_peer_cfg *pcfg = BOGUS;
    struct rpma_mr_remote *region = BOGUS;
    static const char descriptor[21] = {[20] = RPMA_MR_USAGE_READ_SRC};
    fake_libc_fail(FAKE_MALLOC, 1, true);
    assert_int_equal(rpma_conn_cfg_new(&conn_cfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_new(&pcfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_from_descriptor("\1", 1, &pcfg), RPMA_E_NOMEM);
    assert_ptr_equal(conn_cfg, BOGUS);
    assert_ptr_equal(srq_cfg, BOGUS);
    assert_ptr_equal(pcfg, BOGUS);
    assert_int_equal(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &region), RPMA_E_NOMEM);
    assert_ptr_equal(region, BOGUS);
}

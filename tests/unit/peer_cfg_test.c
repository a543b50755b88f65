// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

TEST(the_descriptor_size_is_known_without_an_object)
{
    size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(BOGUS, &size), 0);
    assert_int_equal(size, 1);
}

TEST(constructors_leave_their_output_alone_without_memory)
{
    struct rpma_peer_cfg *pcfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, true);
    assert_int_equal(rpma_peer_cfg_new(&pcfg), RPMA_E_NOMEM);
    assert_int_equal(rpma_peer_cfg_from_descriptor("\1", 1, &pcfg), RPMA_E_NOMEM);
    assert_ptr_equal(pcfg, BOGUS);
}

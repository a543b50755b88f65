// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

TEST(new_leaves_its_output_alone_without_memory)
{
    struct rpma_srq_cfg *cfg = BOGUS;
    fake_libc_fail(FAKE_MALLOC, 1, false);
    assert_int_equal(rpma_srq_cfg_new(&cfg), RPMA_E_NOMEM);
    assert_ptr_equal(cfg, BOGUS);
}

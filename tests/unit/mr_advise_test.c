// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

PATH_TEST(advice_reaches_the_device_unchanged)
{
    const struct ibv_mr *const face = fake_live(FAKE_MR, fake_count(FAKE_MR) - 1);
    assert_done(rpma_mr_advise(mr, 16, 32, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH));
    assert_calls("ibv_advise_mr");
    assert_int_equal(fake_seen()->advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
    assert_int_equal(fake_seen()->advice_flags, IBV_ADVISE_MR_FLAG_FLUSH);
    assert_ptr_equal(fake_seen()->advice_pd, face->pd);
    assert_int_equal(fake_seen()->advice_range.addr, (uintptr_t)test_memory + 16);
    assert_int_equal(fake_seen()->advice_range.length, 32);
    assert_int_equal(fake_seen()->advice_range.lkey, face->lkey);
}

PATH_TEST(a_length_of_more_than_32_bits_is_refused_even_inside_the_region)
{
    struct rpma_mr_local *huge = NULL;
    assert_int_equal(rpma_mr_reg(peer, test_memory, 0x200000000, RPMA_MR_USAGE_READ_SRC, &huge), 0);
    fake_forget_calls();
    assert_int_equal(rpma_mr_advise(huge, 0, 0x100000000, 0, 0), RPMA_E_INVAL);
    assert_calls("");
    assert_int_equal(rpma_mr_advise(huge, 0x100000000, 0xffffffff, 0, 0), 0);
    assert_int_equal(fake_seen()->advice_range.length, 0xffffffff);
    drop_mr(huge);
}

PATH_TEST(the_result_of_the_device_determines_the_error)
{
    const struct {
        int error;
        int code;
    } rows[] = {{EOPNOTSUPP, RPMA_E_NOSUPP}, {ENOTSUP, RPMA_E_NOSUPP}, {EFAULT, RPMA_E_INVAL}, {EINVAL, RPMA_E_INVAL},
            {EIO, RPMA_E_PROVIDER}, {ENOMEM, RPMA_E_PROVIDER}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        fake_device()->advise_error = rows[i].error;
        errno = 0;
        assert_int_equal(rpma_mr_advise(mr, 0, 8, 0, 0), rows[i].code);
        assert_int_equal(errno, rows[i].error);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), i + 1);
    }
}

PATH_TEST(advice_fails_on_a_device_without_it)
{
    fake_device()->without_advise = true;
    fake_context();
    assert_int_equal(rpma_mr_advise(mr, 0, 8, 0, 0), RPMA_E_NOSUPP);
}

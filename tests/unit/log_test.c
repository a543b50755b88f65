// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// Built with the library's own switch for other initial thresholds.
#ifdef RPMA_DEBUG_BUILD
enum {
    INITIAL_THRESHOLD = RPMA_LOG_LEVEL_DEBUG,
    INITIAL_AUX_THRESHOLD = RPMA_LOG_LEVEL_WARNING
};
#else
enum {
    INITIAL_THRESHOLD = RPMA_LOG_LEVEL_WARNING,
    INITIAL_AUX_THRESHOLD = RPMA_LOG_DISABLED
};
#endif

static enum rpma_log_level initial[RPMA_LOG_THRESHOLD_MAX];

TEST(initial_thresholds_are_the_documented_ones)
{
    assert_int_equal(initial[RPMA_LOG_THRESHOLD], INITIAL_THRESHOLD);
    assert_int_equal(initial[RPMA_LOG_THRESHOLD_AUX], INITIAL_AUX_THRESHOLD);
}

TEST(provider_errors_are_logged_with_call_and_cause)
{
    peer = make_peer();
    fake_fail_call(1, EIO, false);
    assert_provider(rpma_peer_delete(&peer), EIO);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 1);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "ibv_dealloc_pd"));
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), strerror(EIO)));
}

TEST(an_errno_without_a_name_is_logged_by_number)
{
    peer = make_peer();
    fake_fail_call(1, 123456, false);
    assert_provider(rpma_peer_delete(&peer), 123456);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "123456"));
}

int main(void)
{
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &initial[RPMA_LOG_THRESHOLD]);
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &initial[RPMA_LOG_THRESHOLD_AUX]);
    return run_registered_tests();
}

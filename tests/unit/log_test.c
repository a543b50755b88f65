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
static enum rpma_log_level got_level;
static unsigned got;

static void count_calls(enum rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
        const char *message_format, ...)
{
    got_level = level;
    ++got;
}

// Emits one message of ERROR.
static void provoke_error(void)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_from_descriptor("", 0, &pcfg), RPMA_E_INVAL);
}

TEST(initial_thresholds_are_the_documented_ones)
{
    assert_int_equal(initial[RPMA_LOG_THRESHOLD], INITIAL_THRESHOLD);
    assert_int_equal(initial[RPMA_LOG_THRESHOLD_AUX], INITIAL_AUX_THRESHOLD);
}

TEST(every_level_can_be_set_on_both_thresholds)
{
    for (enum rpma_log_threshold which = RPMA_LOG_THRESHOLD; which < RPMA_LOG_THRESHOLD_MAX; ++which)
        for (int level = RPMA_LOG_DISABLED; level <= RPMA_LOG_LEVEL_DEBUG; ++level) {
            enum rpma_log_level read_back = RPMA_LOG_LEVEL_FATAL;
            assert_int_equal(rpma_log_set_threshold(which, (enum rpma_log_level)level), 0);
            assert_int_equal(rpma_log_get_threshold(which, &read_back), 0);
            assert_int_equal((int)read_back, level);
        }
}

TEST(unknown_thresholds_and_levels_are_refused)
{
    enum rpma_log_level level = RPMA_LOG_LEVEL_NOTICE;
    assert_int_equal(rpma_log_set_threshold((enum rpma_log_threshold) - 1, level), RPMA_E_INVAL);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_MAX, level), RPMA_E_INVAL);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, (enum rpma_log_level) - 2), RPMA_E_INVAL);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, (enum rpma_log_level)6), RPMA_E_INVAL);
    assert_int_equal(rpma_log_get_threshold((enum rpma_log_threshold) - 1, &level), RPMA_E_INVAL);
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_MAX, &level), RPMA_E_INVAL);
    assert_int_equal(level, RPMA_LOG_LEVEL_NOTICE);
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level), 0);
    assert_int_equal(level, RPMA_LOG_LEVEL_DEBUG);
}

TEST(a_message_passes_up_to_its_level)
{
    assert_int_equal(rpma_log_set_function(count_calls), 0);
    got = 0;
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL), 0);
    provoke_error();
    assert_int_equal(got, 0);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_ERROR), 0);
    provoke_error();
    assert_int_equal(got, 1);
    assert_int_equal(got_level, RPMA_LOG_LEVEL_ERROR);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED), 0);
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG), 0);
    provoke_error();
    assert_int_equal(got, 1);
}

TEST(null_restores_the_default_function)
{
    assert_int_equal(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION), 0);
    provoke_error();
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 0);
    assert_non_null(strstr(fake_libc_syslog_message(), "*ERROR* peer_cfg.cpp: "));
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

TEST(provider_errors_are_returned_with_logging_off)
{
    peer = make_peer();
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED), 0);
    fake_fail_call(1, EIO, false);
    assert_provider(rpma_peer_delete(&peer), EIO);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 0);
}

TEST(loading_the_library_leaves_the_programs_syslog_alone)
{
    assert_int_equal(fake_libc_openlog_calls(), 0);
}

int main(void)
{
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &initial[RPMA_LOG_THRESHOLD]);
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &initial[RPMA_LOG_THRESHOLD_AUX]);
    return run_registered_tests();
}

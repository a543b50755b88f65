// SPDX-License-Identifier: BSD-3-Clause
/* Destinations and format of the built-in log function. */
#include "../driver/suite.h"
#include "../support/logging.h"
#include "../support/rdma.h"
#include "../support/syslog_spy.h"

#include <regex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <syslog.h>

SUITE(default_log);

static char printed[4096];

/* Stores the standard error output of `function` in `printed`. */
static void catch_stderr(void (*function)(void))
{
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int saved = dup(STDERR_FILENO);
    assert_true(file >= 0 && saved >= 0);
    fflush(stderr);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    function();
    fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    ssize_t length = pread(file, printed, sizeof(printed) - 1, 0);
    assert_true(length >= 0);
    printed[length] = '\0';
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, text, 0, NULL, 0))
        fail_msg("\"%s\" does not match %s", text, pattern);
}

/* base name of the file, line with at least three digits or blanks, function, text */
#define PLACE_AND_TEXT "[a-z_]+\\.[a-z]+: ( |[0-9])*[0-9]: [a-z_0-9]+: [^\n]+\n$"

CASE(syslog_is_independent_of_the_auxiliary_threshold)
{
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    provoke_error();
    assert_int_equal(syslog_spy.messages, 1);
}

static void tagged(enum rpma_log_level level, void (*provoke)(void), const char *pattern, int severity)
{
    set_threshold(RPMA_LOG_THRESHOLD, level);
    provoke();
    assert_matches(syslog_spy.text, pattern);
    assert_int_equal(LOG_PRI(syslog_spy.priority), severity);
    assert_int_equal(syslog_spy.priority & LOG_FACMASK, LOG_LOCAL7);
}

CALL_CASE(syslog_has_a_tag_and_a_severity_for_errors,
        tagged(RPMA_LOG_LEVEL_ERROR, provoke_error, "^\\*ERROR\\* " PLACE_AND_TEXT, LOG_ERR));

CALL_CASE(syslog_has_a_tag_and_a_severity_for_information,
        tagged(RPMA_LOG_LEVEL_INFO, provoke_info, "^\\*INFO\\*  " PLACE_AND_TEXT, LOG_INFO));

static void provoke_notice(void)
{
    listen_somewhere(new_peer());
}

CALL_CASE(syslog_has_a_tag_and_a_severity_for_notices,
        tagged(RPMA_LOG_LEVEL_NOTICE, provoke_notice, "^\\*NOTE\\*  " PLACE_AND_TEXT, LOG_NOTICE));

static void provoke_debug(void)
{
    remote_of(new_region(new_peer(), 64, RPMA_MR_USAGE_READ_SRC));
}

CALL_CASE(syslog_has_a_tag_and_a_severity_for_debugging,
        tagged(RPMA_LOG_LEVEL_DEBUG, provoke_debug, "^\\*DEBUG\\* " PLACE_AND_TEXT, LOG_DEBUG));

CASE(stderr_gets_time_and_thread_before_that)
{
    char thread[32];
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
    catch_stderr(provoke_error);
    assert_matches(printed,
            "^[A-Z][a-z]{2} [0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} \\[[0-9]+\\] \\*ERROR\\* " PLACE_AND_TEXT);
    snprintf(thread, sizeof(thread), "[%ld]", syscall(SYS_gettid));
    assert_non_null(strstr(printed, thread));
}

CASE(stderr_gets_nothing_above_the_auxiliary_threshold)
{
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_FATAL);
    catch_stderr(provoke_error);
    assert_string_equal(printed, "");
}

CASE(nothing_is_written_with_the_main_threshold_disabled)
{
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG);
    catch_stderr(provoke_error);
    assert_string_equal(printed, "");
    assert_int_equal(syslog_spy.messages, 0);
}

CALL_CASE(loading_the_library_leaves_the_program_s_syslog_alone, assert_int_equal(syslog_spy.opened, 0));

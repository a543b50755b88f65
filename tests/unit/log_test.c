// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <regex.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

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

static char printed[4096];

static int begin(void **state)
{
    begin_test(state);
    return rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION);
}

#define DEFAULT_TEST(name) DEFINE_TEST(name, begin, end_test)

static void provoke_error(void)
{
    struct rpma_peer_cfg *pcfg = NULL;
    assert_int_equal(rpma_peer_cfg_from_descriptor("", 0, &pcfg), RPMA_E_INVAL);
}

// Stores the output of provoke to stderr in `printed`.
static void catch_stderr(void (*provoke)(void))
{
    FILE *const file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    provoke();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    printed[fread(printed, 1, sizeof(printed) - 1, file)] = '\0';
    fclose(file);
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const int outcome = regexec(&compiled, text, 0, NULL, 0);
    regfree(&compiled);
    if (outcome != 0)
        fail_msg("\"%s\" does not match %s", text, pattern);
}

#define PLACE "peer_cfg\\.cpp: +[0-9]+: rpma_peer_cfg_from_descriptor: "

static void provoke_warning(void)
{
    peer = make_peer();
    conn = make_conn(peer, NULL);
    enum rpma_conn_event event;
    fake_event(newest_id(), RDMA_CM_EVENT_ADDR_CHANGE, NULL, 0);
    assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_UNKNOWN);
    drop_objects();
}

static void provoke_fatal(void)
{
    peer = make_peer();
    req = make_req(peer, NULL);
    fake_libc_fail(FAKE_SYSCONF, 1, false);
    assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), RPMA_E_PROVIDER);
    drop_objects();
}

// rpma-conformance can cause messages of the other levels.
DEFAULT_TEST(fatal_errors_and_warnings_have_their_tag_and_severity)
{
    const struct {
        void (*provoke)(void);
        const char *tag;
        int severity;
    } rows[] = {
            {provoke_fatal, "*FATAL* flush.cpp", LOG_CRIT},
            {provoke_warning, "*WARN*  conn.cpp", LOG_WARNING},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        fake_libc_forget_syslog();
        rows[i].provoke();
        assert_memory_equal(fake_libc_syslog_message(), rows[i].tag, strlen(rows[i].tag));
        assert_int_equal(fake_libc_syslog_priority(), LOG_LOCAL7 | rows[i].severity);
    }
}

DEFAULT_TEST(a_failing_clock_is_reported_in_the_line)
{
    const enum fake_libc_call calls[] = {FAKE_CLOCK_GETTIME, FAKE_LOCALTIME_R, FAKE_STRFTIME};
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR), 0);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
        fake_libc_fail(calls[i], 1, false);
        catch_stderr(provoke_error);
        assert_true(fake_libc_failed(calls[i]));
        assert_matches(printed, "^\\[time error\\] \\[[0-9]+\\] \\*ERROR\\* " PLACE);
    }
}

DEFAULT_TEST(an_unprintable_place_is_reported_in_the_line)
{
    fake_libc_fail(FAKE_SNPRINTF, 1, false);
    provoke_error();
    assert_matches(fake_libc_syslog_message(), "^\\*ERROR\\* \\[file info error\\]: peer configuration");
}

DEFAULT_TEST(an_unprintable_message_is_dropped)
{
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR), 0);
    fake_libc_fail(FAKE_VSNPRINTF, 1, false);
    catch_stderr(provoke_error);
    assert_string_equal(printed, "");
    assert_string_equal(fake_libc_syslog_message(), "");
}

DEFAULT_TEST(logging_leaves_errno_alone)
{
    peer = make_peer();
    assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR), 0);
    fake_libc_fail(FAKE_CLOCK_GETTIME, 1, false);
    fake_fail_call(1, EBUSY, false);
    catch_stderr(provoke_error);
    assert_provider(rpma_peer_delete(&peer), EBUSY);
}

TEST(initial_thresholds_are_the_documented_ones)
{
    assert_int_equal(initial[RPMA_LOG_THRESHOLD], INITIAL_THRESHOLD);
    assert_int_equal(initial[RPMA_LOG_THRESHOLD_AUX], INITIAL_AUX_THRESHOLD);
}

int main(void)
{
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &initial[RPMA_LOG_THRESHOLD]);
    rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &initial[RPMA_LOG_THRESHOLD_AUX]);
    return run_registered_tests();
}

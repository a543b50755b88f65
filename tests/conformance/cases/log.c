// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/logging.h"
#include "../support/rdma.h"
#include "../support/syslog_spy.h"

#include <stdio.h>

SUITE(log);

/* Last message that the log function of the program received, by level. */
static struct {
    unsigned count;
    char file[256];
    char function[128];
    int line;
    char format[512];
    char text[1024];
} got[RPMA_LOG_LEVEL_DEBUG + 1];

__attribute__((format(printf, 5, 6))) static void keep(enum rpma_log_level level, const char *file_name,
        const int line_no, const char *function_name, const char *message_format, ...)
{
    assert_true(level >= RPMA_LOG_LEVEL_FATAL && level <= RPMA_LOG_LEVEL_DEBUG);
    ++got[level].count;
    snprintf(got[level].file, sizeof(got[level].file), "%s", file_name ? file_name : "");
    snprintf(got[level].function, sizeof(got[level].function), "%s", file_name ? function_name : "");
    got[level].line = line_no;
    snprintf(got[level].format, sizeof(got[level].format), "%s", message_format);
    va_list arguments;
    va_start(arguments, message_format);
    vsnprintf(got[level].text, sizeof(got[level].text), message_format, arguments);
    va_end(arguments);
}

static void keep_up_to(enum rpma_log_level level)
{
    set_threshold(RPMA_LOG_THRESHOLD, level);
    assert_done(rpma_log_set_function(keep));
}

static unsigned kept(void)
{
    unsigned all = 0;
    for (int level = 0; level <= RPMA_LOG_LEVEL_DEBUG; ++level)
        all += got[level].count;
    return all;
}

static void provoke_provider_error(void)
{
    struct ibv_context *context = NULL;
    assert_rpma(rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context), RPMA_E_PROVIDER);
}

CASE(the_initial_thresholds_are_those_of_a_release_or_a_debug_build)
{
    enum rpma_log_level main_level = RPMA_LOG_LEVEL_FATAL, aux_level = RPMA_LOG_LEVEL_FATAL;
    assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &main_level));
    assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &aux_level));
    bool debug = main_level == RPMA_LOG_LEVEL_DEBUG;
    assert_int_equal(main_level, debug ? RPMA_LOG_LEVEL_DEBUG : RPMA_LOG_LEVEL_WARNING);
    assert_int_equal(aux_level, debug ? RPMA_LOG_LEVEL_WARNING : RPMA_LOG_DISABLED);
}

#define LEVELS(ROW)                                                                                                    \
    ROW(disabled, RPMA_LOG_DISABLED)                                                                                   \
    ROW(fatal, RPMA_LOG_LEVEL_FATAL)                                                                                   \
    ROW(error, RPMA_LOG_LEVEL_ERROR)                                                                                   \
    ROW(warning, RPMA_LOG_LEVEL_WARNING)                                                                               \
    ROW(notice, RPMA_LOG_LEVEL_NOTICE)                                                                                 \
    ROW(info, RPMA_LOG_LEVEL_INFO)                                                                                     \
    ROW(debug, RPMA_LOG_LEVEL_DEBUG)

#define LEVEL_CASE(name, level)                                                                                        \
    CASE(both_thresholds_take_the_level_##name)                                                                        \
    {                                                                                                                  \
        enum rpma_log_level back = (enum rpma_log_level)77;                                                            \
        set_threshold(RPMA_LOG_THRESHOLD, level);                                                                      \
        assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &back));                                                \
        assert_int_equal(back, level);                                                                                 \
        set_threshold(RPMA_LOG_THRESHOLD_AUX, level);                                                                  \
        assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &back));                                            \
        assert_int_equal(back, level);                                                                                 \
    }
LEVELS(LEVEL_CASE)

CASE(thresholds_do_not_influence_each_other)
{
    enum rpma_log_level back = RPMA_LOG_LEVEL_FATAL;
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR);
    assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &back));
    assert_int_equal(back, RPMA_LOG_LEVEL_INFO);
}

/* name, threshold, level */
#define BAD(ROW)                                                                                                       \
    ROW(a_negative_threshold, -1, RPMA_LOG_LEVEL_INFO)                                                                 \
    ROW(a_threshold_above_the_last, RPMA_LOG_THRESHOLD_MAX, RPMA_LOG_LEVEL_INFO)                                       \
    ROW(a_level_below_disabled, RPMA_LOG_THRESHOLD, -2)                                                                \
    ROW(a_level_above_debug, RPMA_LOG_THRESHOLD, 6)

#define BAD_CASE(name, threshold, level)                                                                               \
    CASE(name##_is_refused)                                                                                            \
    {                                                                                                                  \
        enum rpma_log_level before, after;                                                                             \
        assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &before));                                              \
        assert_rpma(rpma_log_set_threshold((enum rpma_log_threshold)(threshold), (enum rpma_log_level)(level)),        \
                RPMA_E_INVAL);                                                                                         \
        assert_done(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &after));                                               \
        assert_int_equal(before, after);                                                                               \
    }
BAD(BAD_CASE)

CASE(an_unknown_threshold_has_no_level)
{
    enum rpma_log_level level = RPMA_LOG_LEVEL_NOTICE;
    assert_rpma(rpma_log_get_threshold((enum rpma_log_threshold) - 1, &level), RPMA_E_INVAL);
    assert_rpma(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_MAX, &level), RPMA_E_INVAL);
    assert_int_equal(level, RPMA_LOG_LEVEL_NOTICE);
}

CASE(the_program_s_function_gets_the_messages_instead_of_the_default)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    provoke_error();
    assert_int_equal(syslog_spy.messages, 0);
    assert_int_equal(kept(), 1);
    assert_int_equal(got[RPMA_LOG_LEVEL_ERROR].count, 1);
}

CASE(null_restores_the_default_function)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    assert_done(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
    provoke_error();
    assert_int_equal(kept(), 0);
    assert_int_equal(syslog_spy.messages, 1);
}

CASE(a_message_above_the_threshold_is_dropped)
{
    keep_up_to(RPMA_LOG_LEVEL_FATAL);
    provoke_error();
    assert_int_equal(kept(), 0);
}

CASE(a_disabled_threshold_drops_everything)
{
    keep_up_to(RPMA_LOG_DISABLED);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG);
    provoke_error();
    assert_int_equal(kept(), 0);
}

CASE(the_auxiliary_threshold_does_not_bind_the_program_s_function)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    provoke_error();
    assert_int_equal(kept(), 1);
}

CASE(a_message_format_ends_with_a_newline)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    provoke_error();
    const char *format = got[RPMA_LOG_LEVEL_ERROR].format;
    assert_true(*format);
    assert_int_equal(format[strlen(format) - 1], '\n');
    assert_ptr_equal(strchr(format, '\n'), format + strlen(format) - 1);
}

CASE(a_message_names_its_place)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    provoke_error();
    assert_true(*got[RPMA_LOG_LEVEL_ERROR].file);
    assert_true(*got[RPMA_LOG_LEVEL_ERROR].function);
    assert_true(got[RPMA_LOG_LEVEL_ERROR].line > 0);
}

CASE(a_provider_error_is_logged_with_its_call_and_cause)
{
    keep_up_to(RPMA_LOG_LEVEL_ERROR);
    provoke_provider_error();
    assert_true(got[RPMA_LOG_LEVEL_ERROR].count >= 1);
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_ERROR].text, "rdma_"));
}

CASE(no_log_function_changes_the_result)
{
    set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    provoke_provider_error();
    provoke_error();
}

CASE(listening_is_a_notice_with_the_port)
{
    keep_up_to(RPMA_LOG_LEVEL_NOTICE);
    struct listener listener = listen_somewhere(new_peer());
    assert_true(got[RPMA_LOG_LEVEL_NOTICE].count >= 1);
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_NOTICE].text, listener.port));
}

CASE(a_new_request_is_a_notice_with_address_and_port)
{
    keep_up_to(RPMA_LOG_LEVEL_NOTICE);
    new_request(new_peer(), "7204", NULL);
    assert_true(got[RPMA_LOG_LEVEL_NOTICE].count >= 1);
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_NOTICE].text, "7204"));
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_NOTICE].text, case_address));
}

CASE(an_event_is_a_notice_with_its_name)
{
    keep_up_to(RPMA_LOG_LEVEL_NOTICE);
    connect_pair();
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_NOTICE].text, rpma_utils_conn_event_2str(RPMA_CONN_ESTABLISHED)));
}

CASE(a_disconnection_is_a_notice)
{
    struct pair pair = connect_pair();
    keep_up_to(RPMA_LOG_LEVEL_NOTICE);
    assert_done(rpma_conn_disconnect(pair.client.conn));
    assert_int_equal(got[RPMA_LOG_LEVEL_NOTICE].count, 1);
}

CASE(a_peer_configuration_is_logged_as_information)
{
    keep_up_to(RPMA_LOG_LEVEL_INFO);
    provoke_info();
    assert_int_equal(got[RPMA_LOG_LEVEL_INFO].count, 1);
}

CASE(an_address_in_the_log_is_complete)
{
    struct region region = new_region(new_peer(), 4096, USAGE_ALL);
    char address[32];
    keep_up_to(RPMA_LOG_LEVEL_DEBUG);
    remote_of(region);
    snprintf(address, sizeof(address), "%lx", (unsigned long)(uintptr_t)region.ptr);
    assert_non_null(strstr(got[RPMA_LOG_LEVEL_DEBUG].text, address));
}

CASE(an_atomic_write_to_a_misaligned_address_is_a_warning)
{
    struct pair pair = connect_pair();
    static char memory[64] __attribute__((aligned(8)));
    struct rpma_mr_local *mr = NULL;
    assert_done(rpma_mr_reg(pair.peer, memory + 4, 32, USAGE_ALL, &mr));
    struct rpma_mr_remote *remote = remote_of((struct region){memory + 4, 32, mr});
    keep_up_to(RPMA_LOG_LEVEL_WARNING);
    assert_done(rpma_atomic_write(pair.client.conn, remote, 8, "8 bytes", ALWAYS, NULL));
    assert_int_equal(got[RPMA_LOG_LEVEL_WARNING].count, 1);
}

CASE(successful_operations_log_nothing)
{
    struct pair pair = connect_pair();
    struct rpma_conn *conn = pair.client.conn;
    keep_up_to(RPMA_LOG_LEVEL_INFO);
    assert_done(rpma_write(conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, NULL));
    assert_done(rpma_read(conn, pair.client.memory.mr, 0, pair.client.remote, 0, 8, ALWAYS, NULL));
    assert_done(rpma_flush(conn, pair.client.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL));
    assert_done(rpma_atomic_write(conn, pair.client.remote, 0, "8 bytes", ALWAYS, NULL));
    for (int i = 0; i < 4; ++i)
        assert_int_equal(next_completion(pair.client.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(kept(), 0);
}

CASE(empty_queues_are_not_errors)
{
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    enum rpma_conn_event event;
    struct rpma_conn_req *req = NULL;
    make_nonblocking(event_fd(pair.client.conn));
    make_nonblocking(ep_fd(pair.listener.ep));
    make_nonblocking(cq_fd(pair.client.cq));
    keep_up_to(RPMA_LOG_LEVEL_INFO);
    rpma_conn_next_event(pair.client.conn, &event);
    rpma_ep_next_conn_req(pair.listener.ep, NULL, &req);
    rpma_cq_wait(pair.client.cq);
    rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL);
    assert_int_equal(kept(), 0);
}

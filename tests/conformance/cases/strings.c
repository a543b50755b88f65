// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/check.h"

#include <limits.h>

SUITE(strings);

/* name, value, text */
#define ERRORS(ROW)                                                                                                    \
    ROW(success, 0, "Success")                                                                                         \
    ROW(unknown, RPMA_E_UNKNOWN, "Unknown error")                                                                      \
    ROW(nosupp, RPMA_E_NOSUPP, "Not supported")                                                                        \
    ROW(provider, RPMA_E_PROVIDER, "Provider error occurred")                                                          \
    ROW(nomem, RPMA_E_NOMEM, "Out of memory")                                                                          \
    ROW(inval, RPMA_E_INVAL, "Invalid argument")                                                                       \
    ROW(no_completion, RPMA_E_NO_COMPLETION, "No next completion available")                                           \
    ROW(no_event, RPMA_E_NO_EVENT, "No next event available")                                                          \
    ROW(again, RPMA_E_AGAIN, "Temporary error, try again")                                                             \
    ROW(shared_channel, RPMA_E_SHARED_CHANNEL, "Completion channel is shared")                                         \
    ROW(not_shared_channel, RPMA_E_NOT_SHARED_CHNL, "Completion channel is not shared")                                \
    ROW(a_positive_number, 1, "Unknown error")                                                                         \
    ROW(a_small_negative_number, -1, "Unknown error")                                                                  \
    ROW(the_smallest_number, INT_MIN, "Unknown error")                                                                 \
    ROW(the_largest_number, INT_MAX, "Unknown error")                                                                  \
    ROW(the_number_before_the_first, RPMA_E_UNKNOWN + 1, "Unknown error")                                              \
    ROW(the_number_after_the_last, RPMA_E_NOT_SHARED_CHNL - 1, "Unknown error")

#define EVENTS(ROW)                                                                                                    \
    ROW(undefined, RPMA_CONN_UNDEFINED, "Undefined connection event")                                                  \
    ROW(established, RPMA_CONN_ESTABLISHED, "Connection established")                                                  \
    ROW(closed, RPMA_CONN_CLOSED, "Connection closed")                                                                 \
    ROW(lost, RPMA_CONN_LOST, "Connection lost")                                                                       \
    ROW(rejected, RPMA_CONN_REJECTED, "Connection rejected")                                                           \
    ROW(unreachable, RPMA_CONN_UNREACHABLE, "Connection unreachable")                                                  \
    ROW(no_event_below, -2, "Unsupported connection event")                                                            \
    ROW(no_event_above, 5, "Unsupported connection event")

#define ERROR_CASE(name, value, text) CALL_CASE(error_text_of_##name, assert_string_equal(rpma_err_2str(value), text));
ERRORS(ERROR_CASE)

#define EVENT_CASE(name, value, text)                                                                                  \
    CALL_CASE(event_text_of_##name,                                                                                    \
            assert_string_equal(rpma_utils_conn_event_2str((enum rpma_conn_event)(value)), text));
EVENTS(EVENT_CASE)

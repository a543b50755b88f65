// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma.h>

/* A failed check ends the test, or a server process, which reports the cause to the test. */
_Noreturn void check_failed(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

void check_equal(const char *file, int line, const char *text, long long actual, long long expected);
void check_rpma(const char *file, int line, const char *text, int actual, int expected);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, "%s", #condition))
#define CHECK_EQ(actual, expected) check_equal(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))
#define CHECK_RPMA(call, expected) check_rpma(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_RPMA(call, 0)

/* Called with the message of a failed check. Must not return. */
typedef void check_handler(void *argument, const char *message);

/* Sets the handler of the process. Without one, the cmocka test fails. */
void check_handle(check_handler *handler, void *argument);

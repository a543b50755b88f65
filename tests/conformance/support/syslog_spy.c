// SPDX-License-Identifier: BSD-3-Clause
#include "syslog_spy.h"

#include <stdarg.h>
#include <stdio.h>

#define FACILITY_MASK 0x3f8

struct syslog_spy syslog_spy;
static int open_facility;

static void take(int priority, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

static void take(int priority, const char *format, va_list arguments)
{
    ++syslog_spy.messages;
    syslog_spy.priority = priority & FACILITY_MASK ? priority : priority | open_facility;
    vsnprintf(syslog_spy.text, sizeof(syslog_spy.text), format, arguments);
}

/* Declared here, because <syslog.h> may define these functions inline. */
void openlog(const char *ident, int option, int facility);
void closelog(void);
void syslog(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vsyslog(int priority, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
void __syslog_chk(int priority, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments) __attribute__((format(printf, 3, 0)));

void openlog(const char *ident, int option, int facility)
{
    ++syslog_spy.opened;
    open_facility = facility;
}

void closelog(void) {}

void syslog(int priority, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    take(priority, format, arguments);
    va_end(arguments);
}

void vsyslog(int priority, const char *format, va_list arguments)
{
    take(priority, format, arguments);
}

void __syslog_chk(int priority, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    take(priority, format, arguments);
    va_end(arguments);
}

void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments)
{
    take(priority, format, arguments);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include <fio.h>

enum {
    MAX_LINE = 512
};

static void write_line(const struct thread_data *td, const char *format, va_list args)
{
    char text[MAX_LINE];
    (void)vsnprintf(text, sizeof(text), format, args);
    log_err("%s: %s\n", td->io_ops->name, text);
}

void note(const struct thread_data *td, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(td, format, args);
    va_end(args);
}

int report(struct thread_data *td, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(td, format, args);
    va_end(args);
    td_verror(td, error, td->io_ops->name);
    return error;
}

const char *reason(int ret)
{
    return ret == RPMA_E_PROVIDER && errno ? strerror(errno) : rpma_err_2str(ret);
}

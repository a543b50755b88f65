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

void print_line(const struct thread_data *td, const char *format, ...)
{
    char text[MAX_LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* log_err() would also write to the file of --output, before the report. */
    (void)fprintf(stderr, "%s: %s\n", td->io_ops->name, text);
}

int report(struct thread_data *td, int error, const char *format, ...)
{
    char text[MAX_LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_err("%s: %s\n", td->io_ops->name, text);
    td_verror(td, error, td->io_ops->name);
    return error;
}

const char *reason(int ret)
{
    return ret == RPMA_E_PROVIDER && errno ? strerror(errno) : rpma_err_2str(ret);
}

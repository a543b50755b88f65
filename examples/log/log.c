// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "output.h"
#include "status.h"

/* librpma may log in any thread */
static atomic_int caught_count;

static const char *name_of(enum rpma_log_level level)
{
    static const char *const names[] = {
            [RPMA_LOG_LEVEL_FATAL] = "fatal",
            [RPMA_LOG_LEVEL_ERROR] = "error",
            [RPMA_LOG_LEVEL_WARNING] = "warning",
            [RPMA_LOG_LEVEL_NOTICE] = "notice",
            [RPMA_LOG_LEVEL_INFO] = "info",
            [RPMA_LOG_LEVEL_DEBUG] = "debug",
    };
    return level >= RPMA_LOG_LEVEL_FATAL && level <= RPMA_LOG_LEVEL_DEBUG ? names[level] : "unknown";
}

/* Writes messages of the library to the application's own log. Messages end with a newline. */
__attribute__((format(printf, 5, 6))) static void print_message(enum rpma_log_level level, const char *file_name,
        const int line_no, const char *function_name, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    message[strcspn(message, "\n")] = '\0';
    if (file_name)
        printf("custom: %s: %s:%d: %s: %s\n", name_of(level), file_name, line_no, function_name, message);
    else
        printf("custom: %s: %s\n", name_of(level), message);
    atomic_fetch_add(&caught_count, 1);
}

/* Passes a truncated descriptor, and one of a region without usages. Needs no RDMA device. */
static int provoke_messages(void)
{
    static const char descriptor[21];
    const size_t sizes[] = {1, sizeof(descriptor)};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        struct rpma_mr_remote *mr = NULL;
        const int ret = rpma_mr_remote_from_descriptor(descriptor, sizes[i], &mr);
        if (ret != RPMA_E_INVAL) {
            (void)rpma_mr_remote_delete(&mr);
            warnx("a wrong descriptor gave '%s' instead of '%s'", rpma_err_2str(ret), rpma_err_2str(RPMA_E_INVAL));
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

static int log_everything(void)
{
    int status = check("rpma_log_set_threshold", rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG));
    if (status == STATUS_OK) /* the default function also writes these messages to stderr */
        status = check("rpma_log_set_threshold", rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_DEBUG));
    return status;
}

static int log_to_default(void)
{
    puts("The default function writes to syslog, and to stderr:");
    (void)fflush(stdout);
    const int status = provoke_messages();
    puts("Read syslog with `journalctl -t rpma` or `grep rpma /var/log/syslog`.");
    return status;
}

static int log_to_custom(void)
{
    puts("A function of the application gets the same messages:");
    int status = check("rpma_log_set_function", rpma_log_set_function(print_message));
    if (status == STATUS_OK)
        status = provoke_messages();
    status |= check("rpma_log_set_function", rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));

    if (status == STATUS_OK && atomic_load(&caught_count) == 0) {
        warnx("the function got no message");
        return STATUS_FAILED;
    }
    return status;
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        puts("Usage: log\n\nShows what librpma logs and how to direct it elsewhere. Needs no RDMA device.");
        return STATUS_OK;
    }
    if (argc > 1) {
        warnx("unknown argument '%s': there are none (see --help)", argv[1]);
        return STATUS_USAGE;
    }

    int status = log_everything();
    if (status == STATUS_OK)
        status = log_to_default();
    if (status == STATUS_OK)
        status = log_to_custom();
    return status;
}

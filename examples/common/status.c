// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <librpma.h>

const char *reason(int ret)
{
    return ret == RPMA_E_PROVIDER && errno != 0 ? strerror(errno) : rpma_err_2str(ret);
}

int check(const char *call, int ret)
{
    if (ret == 0)
        return STATUS_OK;

    warnx("%s: %s", call, reason(ret));
    return STATUS_FAILED;
}

static void check_output(void)
{
    const bool failed = ferror(stdout) != 0;
    errno = EIO;
    /* The stream does not store the reason of an error. Another write fails for the same reason. */
    if (failed)
        (void)!write(STDOUT_FILENO, "\n", 1);
    if (fclose(stdout) != 0 || failed) {
        warn("standard output");
        _exit(STATUS_FAILED);
    }
}

void check_output_at_exit(void)
{
    if (atexit(check_output) != 0)
        warnx("standard output is not checked for errors: out of memory");
}

// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <err.h>
#include <errno.h>
#include <string.h>

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

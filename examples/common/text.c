// SPDX-License-Identifier: BSD-3-Clause
#include "text.h"

#include <err.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

int check_text(const char *label, const char *text, size_t size)
{
    const size_t length = text ? strnlen(text, size) : 0;
    if (length == 0) {
        warnx("%s: no text found", label);
        return STATUS_FAILED;
    }
    if (length == size) {
        warnx("%s: text not terminated within %zu bytes", label, size);
        return STATUS_FAILED;
    }
    return STATUS_OK;
}

int print_text(const char *label, const char *text, size_t size)
{
    const int status = check_text(label, text, size);
    if (status == STATUS_OK)
        printf("%s: %s\n", label, text);
    return status;
}

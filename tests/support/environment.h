/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stdlib.h>

/* Returns the number in an environment variable, or the default if the variable is not set. */
static inline unsigned number_from(const char *variable, unsigned standard)
{
    const char *const text = getenv(variable);
    return text == NULL ? standard : (unsigned)strtoul(text, NULL, 10);
}

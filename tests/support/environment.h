/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_SUPPORT_ENVIRONMENT_H
#define TEST_SUPPORT_ENVIRONMENT_H

#include <stdlib.h>

/* Returns the number in an environment variable, or the default if the variable is not set. */
static inline unsigned number_from(const char *variable, unsigned standard)
{
    const char *const text = getenv(variable);
    return text == NULL ? standard : (unsigned)strtoul(text, NULL, 10);
}

#endif

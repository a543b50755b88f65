// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdbool.h>

/* Library and device under test. */
struct subject {
    char library[4096]; /* path of the loaded librpma.so.0 */
    char device[512];   /* name, kind and capabilities */
};

/* Returns false if no device has the address; `device` then contains the cause. */
bool find_subject(const char *addr, struct subject *subject);

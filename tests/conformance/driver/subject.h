// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_SUBJECT_H
#define CONFORMANCE_SUBJECT_H

#include <stdbool.h>

/* Library and device under test. */
struct subject {
    char library[4096]; /* file of the librpma.so.0 in use */
    char device[512];   /* name, kind and capabilities */
};

/* False, with the cause in device, if no device serves the address. */
bool find_subject(const char *addr, struct subject *subject);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrapper of the C library below librpma: selected calls fail, allocations and mappings are counted, and messages to
 * syslog are recorded. It uses the linker option --wrap, so it affects only calls from objects that are linked into the
 * test program, not those from shared libraries.
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fake_libc_call {
    FAKE_MALLOC, /* calloc counts as well */
    FAKE_MMAP,
    FAKE_MUNMAP,
    FAKE_SYSCONF,
    FAKE_CLOCK_GETTIME,
    FAKE_LOCALTIME_R,
    FAKE_STRFTIME,
    FAKE_SNPRINTF,
    FAKE_VSNPRINTF,
    FAKE_LIBC_CALLS
};

/* The n-th such call after this one fails (n is 1 for the next); if persistent, all later ones fail too. If n is 0,
 * none fails. */
void fake_libc_fail(enum fake_libc_call which, unsigned n, bool persistent);
void fake_libc_fail_none(void);

/* Called when a failure is delivered; NULL for nothing. Reset by fake_libc_fail_none(). */
void fake_libc_on_failure(void (*function)(void));

/* Returns whether a failure was delivered since it was requested. */
bool fake_libc_failed(enum fake_libc_call which);

/* The next allocation returns this address. The caller maps it before, and unmaps it when the object has been freed. */
void fake_libc_place_next(void *address);

/* Number of allocations and mappings that exist. */
long fake_libc_allocations(void);
long fake_libc_mappings(void);

/* The latest message to syslog and its priority; "" and -1 if there was none since fake_libc_forget_syslog(). */
const char *fake_libc_syslog_message(void);
int fake_libc_syslog_priority(void);
void fake_libc_forget_syslog(void);

#ifdef __cplusplus
}
#endif

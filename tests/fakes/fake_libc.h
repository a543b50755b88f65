/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library below librpma: chosen calls fail, allocations and mappings are counted, what goes to syslog is kept.
 * Works through the linker's --wrap, so only calls from objects linked into the test program are seen, not those from
 * shared libraries.
 */
#ifndef FAKE_LIBC_H
#define FAKE_LIBC_H 1

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

/* The n-th such call from now (1 is the next) fails, with persistent every later one too; n 0: none does. */
void fake_libc_fail(enum fake_libc_call which, unsigned n, bool persistent);
void fake_libc_fail_none(void);

/* Called when a failure is delivered; NULL for nothing. Reset by fake_libc_fail_none(). */
void fake_libc_on_failure(void (*function)(void));

/* Returns whether a failure was delivered since it was requested. */
bool fake_libc_failed(enum fake_libc_call which);

/* The next allocation is at this address, which the caller has mapped and unmaps after the object's end. */
void fake_libc_place_next(void *address);

/* Allocations and mappings that exist. */
long fake_libc_allocations(void);
long fake_libc_mappings(void);

/* The latest message to syslog and its priority; "" and -1 if there was none since fake_libc_forget_syslog(). */
const char *fake_libc_syslog_message(void);
int fake_libc_syslog_priority(void);
void fake_libc_forget_syslog(void);

/* Calls of openlog and closelog so far. */
unsigned fake_libc_openlog_calls(void);

#ifdef __cplusplus
}
#endif

#endif /* FAKE_LIBC_H */

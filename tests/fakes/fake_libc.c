// SPDX-License-Identifier: BSD-3-Clause
#include "fake_libc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>

static struct {
    atomic_uint in; /* number of calls until the one that fails */
    atomic_bool persistent;
    atomic_bool failed;
} faults[FAKE_LIBC_CALLS];

static void (*_Atomic on_failure)(void);
// Addresses for tests that place objects. Only one object is placed at a time.
enum {
    MAX_PLACED = 8
};
static void *placed[MAX_PLACED];
static void *_Atomic place_next;

static atomic_long allocations;
static atomic_long mappings;
static char syslog_message[2048];
static int syslog_priority = -1;
static atomic_flag syslog_lock = ATOMIC_FLAG_INIT;

void fake_libc_fail(enum fake_libc_call which, unsigned n, bool persistent)
{
    faults[which].persistent = persistent;
    faults[which].failed = false;
    faults[which].in = n;
}

void fake_libc_fail_none(void)
{
    for (int which = 0; which < FAKE_LIBC_CALLS; ++which)
        faults[which].in = 0;
    fake_libc_on_failure(NULL);
}

void fake_libc_on_failure(void (*function)(void))
{
    on_failure = function;
}

bool fake_libc_failed(enum fake_libc_call which)
{
    return faults[which].failed;
}
long fake_libc_allocations(void)
{
    return allocations;
}
long fake_libc_mappings(void)
{
    return mappings;
}
const char *fake_libc_syslog_message(void)
{
    return syslog_message;
}
int fake_libc_syslog_priority(void)
{
    return syslog_priority;
}

void fake_libc_forget_syslog(void)
{
    syslog_message[0] = '\0';
    syslog_priority = -1;
}

static bool fails(enum fake_libc_call which)
{
    const unsigned in = faults[which].in;
    if (in == 0)
        return false;
    if (in > 1) {
        faults[which].in = in - 1;
        return false;
    }
    faults[which].failed = true;
    if (!faults[which].persistent)
        faults[which].in = 0;
    void (*const callback)(void) = on_failure;
    if (callback != NULL)
        callback();
    return true;
}

// Declares the function of the C library and the one that replaces it.
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)
WRAP(void *, malloc, size_t size);
WRAP(void *, calloc, size_t count, size_t size);
WRAP(void, free, void *ptr);
WRAP(void *, mmap, void *addr, size_t length, int protection, int flags, int fd, off_t offset);
WRAP(int, munmap, void *addr, size_t length);
WRAP(long, sysconf, int name);
WRAP(int, clock_gettime, clockid_t clock, struct timespec *now);
WRAP(struct tm *, localtime_r, const time_t *from, struct tm *to);
WRAP(size_t, strftime, char *to, size_t size, const char *format, const struct tm *from);
WRAP(int, vsnprintf, char *to, size_t size, const char *format, va_list arguments);
int __wrap_snprintf(char *to, size_t size, const char *format, ...);
void __wrap_syslog(int priority, const char *format, ...);
void __wrap_vsyslog(int priority, const char *format, va_list arguments);
// Functions that calls are compiled to with _FORTIFY_SOURCE.
int __wrap___vsnprintf_chk(char *to, size_t size, int flag, size_t to_size, const char *format, va_list arguments);
int __wrap___snprintf_chk(char *to, size_t size, int flag, size_t to_size, const char *format, ...);
void __wrap___syslog_chk(int priority, int flag, const char *format, ...);
void __wrap___vsyslog_chk(int priority, int flag, const char *format, va_list arguments);

void fake_libc_place_next(void *address)
{
    unsigned i = 0;
    while (placed[i] != NULL && placed[i] != address)
        ++i;
    placed[i] = address;
    place_next = address;
}

static bool is_placed(const void *address)
{
    for (unsigned i = 0; i < MAX_PLACED && placed[i] != NULL; ++i)
        if (placed[i] == address)
            return true;
    return false;
}

static void *place(void)
{
    return place_next == NULL ? NULL : atomic_exchange(&place_next, NULL);
}

static void *counted(void *created)
{
    if (created == NULL)
        errno = ENOMEM;
    else
        ++allocations;
    return created;
}

void *__wrap_malloc(size_t size)
{
    if (fails(FAKE_MALLOC))
        return counted(NULL);
    void *const at = place();
    return counted(at != NULL ? at : __real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return counted(fails(FAKE_MALLOC) ? NULL : __real_calloc(count, size));
}

void __wrap_free(void *ptr)
{
    if (ptr != NULL)
        --allocations;
    if (!is_placed(ptr))
        __real_free(ptr);
}

void *__wrap_mmap(void *addr, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fails(FAKE_MMAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    ++mappings;
    return __real_mmap(addr, length, protection, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t length)
{
    const bool failing = fails(FAKE_MUNMAP);
    --mappings;
    const int returned = __real_munmap(addr, length);
    if (!failing)
        return returned;
    errno = EINVAL;
    return -1;
}

long __wrap_sysconf(int name)
{
    if (!fails(FAKE_SYSCONF))
        return __real_sysconf(name);
    errno = EINVAL;
    return -1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    return fails(FAKE_CLOCK_GETTIME) ? -1 : __real_clock_gettime(clock, now);
}

struct tm *__wrap_localtime_r(const time_t *from, struct tm *to)
{
    return fails(FAKE_LOCALTIME_R) ? NULL : __real_localtime_r(from, to);
}

size_t __wrap_strftime(char *to, size_t size, const char *format, const struct tm *from)
{
    return fails(FAKE_STRFTIME) ? 0 : __real_strftime(to, size, format, from);
}

int __wrap_vsnprintf(char *to, size_t size, const char *format, va_list arguments)
{
    return fails(FAKE_VSNPRINTF) ? -1 : __real_vsnprintf(to, size, format, arguments);
}

int __wrap___vsnprintf_chk(char *to, size_t size, int flag, size_t to_size, const char *format, va_list arguments)
{
    if (size > to_size)
        abort();
    return __wrap_vsnprintf(to, size, format, arguments);
}

int __wrap_snprintf(char *to, size_t size, const char *format, ...)
{
    if (fails(FAKE_SNPRINTF))
        return -1;
    va_list arguments;
    va_start(arguments, format);
    const int length = __real_vsnprintf(to, size, format, arguments);
    va_end(arguments);
    return length;
}

int __wrap___snprintf_chk(char *to, size_t size, int flag, size_t to_size, const char *format, ...)
{
    if (size > to_size)
        abort();
    if (fails(FAKE_SNPRINTF))
        return -1;
    va_list arguments;
    va_start(arguments, format);
    const int length = __real_vsnprintf(to, size, format, arguments);
    va_end(arguments);
    return length;
}

void __wrap_vsyslog(int priority, const char *format, va_list arguments)
{
    while (atomic_flag_test_and_set(&syslog_lock))
        ;
    syslog_priority = priority;
    __real_vsnprintf(syslog_message, sizeof(syslog_message), format, arguments);
    atomic_flag_clear(&syslog_lock);
}

void __wrap_syslog(int priority, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    __wrap_vsyslog(priority, format, arguments);
    va_end(arguments);
}

void __wrap___vsyslog_chk(int priority, int flag, const char *format, va_list arguments)
{
    __wrap_vsyslog(priority, format, arguments);
}

void __wrap___syslog_chk(int priority, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    __wrap_vsyslog(priority, format, arguments);
    va_end(arguments);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process holds, for tests that look for what is left behind. */
#ifndef RPMEM_TEST_HOLDINGS_H
#define RPMEM_TEST_HOLDINGS_H

#include <sys/wait.h>

#include "support.h"

enum {
    HOLDINGS_LIMIT_MS = 30000
};

struct holdings {
    unsigned descriptors;
    unsigned threads;
    unsigned shared_mappings; /* registrations share memory with the target on the same host */
};

static inline unsigned entries_of(const char *directory)
{
    unsigned count = 0;
    DIR *const entries = opendir(directory);
    assert_non_null(entries);
    while (readdir(entries) != NULL)
        ++count;
    closedir(entries);
    return count;
}

static inline struct holdings own_holdings(void)
{
    struct holdings now = {.descriptors = entries_of("/proc/self/fd"), .threads = entries_of("/proc/self/task")};
    char line[512];
    FILE *const maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        now.shared_mappings += strstr(line, "memfd:") != NULL || strstr(line, ".part") != NULL;
    fclose(maps);
    return now;
}

/* Threads and descriptors of the device go a moment after the pool. */
static inline void expect_holdings(const struct holdings *before)
{
    struct holdings now = own_holdings();
    for (int i = 0; i < HOLDINGS_LIMIT_MS && memcmp(&now, before, sizeof(now)) != 0; ++i) {
        usleep(1000);
        now = own_holdings();
    }
    assert_int_equal(now.descriptors, before->descriptors);
    assert_int_equal(now.threads, before->threads);
    assert_int_equal(now.shared_mappings, before->shared_mappings);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

#endif

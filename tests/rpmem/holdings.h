/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources that a process holds, for tests that search for leaks. */
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
    unsigned shared_mappings; /* registered memory that is shared with a target on the same host */
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

static inline int holds_no_more(const struct holdings *now, const struct holdings *before)
{
    return now->descriptors <= before->descriptors && now->threads <= before->threads &&
           now->shared_mappings <= before->shared_mappings;
}

/* The device ends its threads and closes its descriptors with a delay, so the earlier counts can be higher, too. */
static inline void expect_holdings(const struct holdings *before)
{
    struct holdings now = own_holdings();
    for (int i = 0; i < HOLDINGS_LIMIT_MS && !holds_no_more(&now, before); ++i) {
        usleep(1000);
        now = own_holdings();
    }
    assert_in_range(now.descriptors, 0, before->descriptors);
    assert_in_range(now.threads, 0, before->threads);
    assert_in_range(now.shared_mappings, 0, before->shared_mappings);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

#endif

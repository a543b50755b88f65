/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources of a process, for tests that search for leaks. */
#pragma once

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct resources {
    unsigned descriptors;
    unsigned threads;
    unsigned shared_mappings; /* memory of files, and memory that is shared with peers */
};

/* Returns the number of entries in a directory whose names contain `part`. */
unsigned entries_in(const char *directory, const char *part);

struct resources resources_of(pid_t pid);

/* Waits until the process has no more resources than before, because a device releases them with a delay. Fails with a
 * list of the descriptors if it still has more after 30 s. */
void expect_resources(pid_t pid, const struct resources *before);

#ifdef __cplusplus
}
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "registered_tests.h"
#include "resources.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

static const char *path_of(pid_t pid, const char *name)
{
    static char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return path;
}

unsigned entries_in(const char *directory, const char *part)
{
    unsigned count = 0;
    DIR *const entries = opendir(directory);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += strstr(entry->d_name, part) != NULL;
    closedir(entries);
    return count;
}

struct resources resources_of(pid_t pid)
{
    struct resources now = {.descriptors = entries_in(path_of(pid, "fd"), "")};
    now.threads = entries_in(path_of(pid, "task"), "");
    FILE *const maps = fopen(path_of(pid, "maps"), "re");
    assert_non_null(maps);
    char line[4352], shared;
    while (fgets(line, sizeof(line), maps) != NULL)
        now.shared_mappings += sscanf(line, "%*s %*3c%c", &shared) == 1 && shared == 's';
    fclose(maps);
    return now;
}

static void print_descriptors(pid_t pid)
{
    DIR *const entries = opendir(path_of(pid, "fd"));
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        char file[256] = "";
        if (readlinkat(dirfd(entries), entry->d_name, file, sizeof(file) - 1) > 0)
            print_error("descriptor %s: %s\n", entry->d_name, file);
    }
    if (entries != NULL)
        closedir(entries);
}

void expect_resources(pid_t pid, const struct resources *before)
{
    struct resources now;
    for (const int64_t until = now_ms() + 30000;;) {
        now = resources_of(pid);
        if (now.descriptors <= before->descriptors && now.threads <= before->threads &&
                now.shared_mappings <= before->shared_mappings)
            return;
        if (now_ms() > until)
            break;
        usleep(1000);
    }
    print_descriptors(pid);
    fail_msg("%u descriptors, %u threads, %u shared mappings became %u, %u, %u", before->descriptors, before->threads,
            before->shared_mappings, now.descriptors, now.threads, now.shared_mappings);
}

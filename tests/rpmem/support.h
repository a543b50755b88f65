/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPMEM_TEST_SUPPORT_H
#define RPMEM_TEST_SUPPORT_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <librpmem.h>

#include "environment.h"
#include "registered_tests.h"
#include "resources.h"

#define POOL_SIZE ((size_t)8 * 1024 * 1024)
#define HEADER_SIZE ((size_t)4096)

/* Expects that the call returns -1 with this errno value. */
#define assert_fails(call, error)                                                                                      \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        assert_int_equal((call), -1);                                                                                  \
        assert_int_equal(errno, (error));                                                                              \
    } while (0)

/* Expects that the call returns no pool, this errno value and a message. */
#define assert_refused(call, error)                                                                                    \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        assert_null(call);                                                                                             \
        assert_int_equal(errno, (error));                                                                              \
        assert_true(rpmem_errormsg()[0] != '\0');                                                                      \
    } while (0)

static char *pool_memory;
static const struct rpmem_pool_attr some_attributes = {.signature = "RPMEMTS", .major = 1};

static inline int make_memory(void **state)
{
    pool_memory = (char *)mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pool_memory == MAP_FAILED ? -1 : 0;
}

static inline RPMEMpool *must(RPMEMpool *pool)
{
    if (pool == NULL)
        fail_msg("%s (%s)", rpmem_errormsg(), strerror(errno));
    return pool;
}

static inline RPMEMpool *create_pool(const char *set, const struct rpmem_pool_attr *attributes)
{
    unsigned lanes = 2;
    /* The daemon of a lost session may still be exiting. */
    for (int attempts = 0; rpmem_remove("host", set, RPMEM_REMOVE_FORCE) != 0; ++attempts) {
        if (attempts == 100)
            fail_msg("%s (%s)", rpmem_errormsg(), strerror(errno));
        usleep(100000);
    }
    RPMEMpool *const pool = must(rpmem_create("host", set, pool_memory, POOL_SIZE, &lanes, attributes));
    assert_int_equal(lanes, 2);
    return pool;
}

/* Opens the pool of the set `pool.set` with one lane. Returns NULL if this fails. */
static inline RPMEMpool *try_to_open(void)
{
    unsigned lanes = 1;
    return rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, NULL);
}

/* Returns the path of a file of the test, which the thread can use until its fourth next call. */
static inline const char *in_directory(const char *name)
{
    static __thread char paths[4][4096];
    static __thread unsigned next;
    char *const path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", getenv("RPMEM_TEST_DIR"), name);
    return path;
}

static inline void make_file(const char *name)
{
    FILE *const file = fopen(in_directory(name), "w");
    assert_non_null(file);
    fclose(file);
}

static inline FILE *open_file(const char *name)
{
    FILE *const file = fopen(in_directory(name), "rb");
    assert_non_null(file);
    return file;
}

/* Returns whether a line of the file contains the text. */
static inline bool contains(const char *name, const char *text)
{
    char line[2048] = "";
    FILE *const file = open_file(name);
    while (strstr(line, text) == NULL && fgets(line, sizeof(line), file) != NULL)
        ;
    fclose(file);
    return strstr(line, text) != NULL;
}

/* Reads from the file of a part. */
static inline void read_part(const char *part, size_t offset, void *to, size_t size)
{
    FILE *const file = open_file(part);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(to, 1, size, file), size);
    fclose(file);
}

static inline void expect_in_part(size_t offset, size_t length)
{
    char *const copy = (char *)malloc(length);
    read_part("pool.part", offset, copy, length);
    assert_memory_equal(copy, pool_memory + offset, length);
    free(copy);
}

/* Process of the daemon that was started last. */
static inline pid_t daemon_pid(void)
{
    int pid = 0;
    FILE *const file = open_file("pid");
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return pid;
}

/* Stops the daemon. The signal returns before all threads have stopped: a thread on another processor can still
 * respond. */
static inline pid_t stop_daemon(void)
{
    const pid_t pid = daemon_pid();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    bool all_stopped = false;
    for (int tries = 0; tries < 10000 && !all_stopped; ++tries) {
        usleep(1000);
        all_stopped = true;
        DIR *const tasks = opendir(path);
        assert_non_null(tasks);
        for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
            if (task->d_name[0] == '.')
                continue;
            char name[300], state = '?';
            snprintf(name, sizeof(name), "%s/%s/stat", path, task->d_name);
            FILE *const file = fopen(name, "r");
            if (file == NULL)
                continue;
            /* The name of the program has neither blanks nor parentheses. */
            assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
            fclose(file);
            all_stopped = all_stopped && state == 'T';
        }
        closedir(tasks);
    }
    assert_true(all_stopped);
    return pid;
}

/* Returns whether a process has ended. The daemon is not a child of this process, so it may take a while until it is
 * reaped. */
static inline bool has_ended(pid_t pid)
{
    char path[32], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *const file = fopen(path, "r");
    if (file == NULL)
        return true;
    const int found = fscanf(file, "%*d %*s %c", &state);
    fclose(file);
    return found != 1 || state == 'Z';
}

/* Fails if this process has more resources than before, or a child. */
static inline void expect_no_leak(const struct resources *before)
{
    expect_resources(getpid(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static inline void expect_end_of(pid_t pid)
{
    for (int i = 0; i < 30000 && !has_ended(pid); ++i)
        usleep(1000);
    assert_true(has_ended(pid));
}

#endif

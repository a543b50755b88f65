// SPDX-License-Identifier: BSD-3-Clause
#include "deviations.h"
#include "options.h"
#include "suite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct deviations {
    char *name;
    char *reason;
    struct deviations *next;
};

static bool is_case(const char *full_name)
{
    for (const struct suite *const *suite = suites; *suite; ++suite) {
        size_t length = strlen((*suite)->name);
        if (strncmp(full_name, (*suite)->name, length) || full_name[length] != '.')
            continue;
        for (size_t i = 0; i < (*suite)->count; ++i) {
            if (!strcmp(full_name + length + 1, (*suite)->cases[i].name))
                return true;
        }
    }
    return false;
}

static struct deviations *new_deviation(const char *name, const char *reason, struct deviations *next)
{
    struct deviations *deviation = malloc(sizeof(*deviation));
    if (deviation)
        *deviation = (struct deviations){strdup(name), strdup(reason), next};
    if (!deviation || !deviation->name || !deviation->reason) {
        fputs("rpma-conformance: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return deviation;
}

/* Opens an installed list by its name; NULL if it does not exist. */
static FILE *open_installed(const char *name)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length < 0 || strchr(name, '/'))
        return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    char *path;
    if (asprintf(&path, "%s/%s/%s.txt", program, DEVIATIONS_FROM_PROGRAM, name) < 0)
        return NULL;
    FILE *file = fopen(path, "re");
    free(path);
    return file;
}

struct deviations *read_deviations(const char *path)
{
    FILE *file = fopen(path, "re");
    int reason = errno;
    if (!file)
        file = open_installed(path);
    if (!file)
        usage_error("cannot read '%s': %s", path, strerror(reason));
    struct deviations *all = NULL;
    char *line = NULL;
    size_t size = 0;
    for (int number = 1; getline(&line, &size, file) >= 0; ++number) {
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        char *tab = strchr(line, '\t');
        if (!tab || tab == line || !tab[1])
            usage_error("%s:%d: not a case, a tab and a reason", path, number);
        *tab = '\0';
        if (!is_case(line))
            usage_error("%s:%d: unknown case '%s'", path, number, line);
        if (deviation_reason(all, line))
            usage_error("%s:%d: '%s' is listed twice", path, number, line);
        all = new_deviation(line, tab + 1, all);
    }
    free(line);
    fclose(file);
    return all;
}

void free_deviations(struct deviations *deviations)
{
    while (deviations) {
        struct deviations *next = deviations->next;
        free(deviations->name);
        free(deviations->reason);
        free(deviations);
        deviations = next;
    }
}

const char *deviation_reason(const struct deviations *deviations, const char *full_name)
{
    for (; deviations; deviations = deviations->next) {
        if (!strcmp(deviations->name, full_name))
            return deviations->reason;
    }
    return NULL;
}

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

struct deviation {
    const char *name;
    const char *reason;
    struct deviation *next;
};

static struct deviation *known;

/* Returns the name of a case that has this name, or NULL. */
static const char *name_of_case(const char *text)
{
    for (const struct suite *const *suite = suites; *suite; ++suite) {
        for (size_t i = 0; i < (*suite)->count; ++i) {
            if (!strcmp(text, (*suite)->cases[i].name))
                return (*suite)->cases[i].name;
        }
    }
    return NULL;
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

void read_deviations(const char *path)
{
    FILE *file = fopen(path, "re");
    int reason = errno;
    if (!file)
        file = open_installed(path);
    if (!file)
        usage_error("cannot read '%s': %s", path, strerror(reason));
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
        const char *name = name_of_case(line);
        if (!name)
            usage_error("%s:%d: unknown case '%s'", path, number, line);
        if (deviation_reason(name))
            usage_error("%s:%d: '%s' is listed twice", path, number, line);
        struct deviation *deviation = allocated(malloc(sizeof(*deviation)));
        *deviation = (struct deviation){name, allocated(strdup(tab + 1)), known};
        known = deviation;
    }
    free(line);
    fclose(file);
}

const char *deviation_reason(const char *name)
{
    for (const struct deviation *deviation = known; deviation; deviation = deviation->next) {
        if (!strcmp(deviation->name, name))
            return deviation->reason;
    }
    return NULL;
}

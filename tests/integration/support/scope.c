// SPDX-License-Identifier: BSD-3-Clause
#include "scope.h"
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scope_entry {
    scope_release *release;
    void *object;
    struct scope_entry *older;
};

void scope_add(struct scope *scope, scope_release *release, void *object)
{
    struct scope_entry *entry = malloc(sizeof(*entry));
    CHECK(entry != NULL);
    *entry = (struct scope_entry){release, object, scope->newest};
    scope->newest = entry;
}

static scope_release *take(struct scope *scope, const void *object)
{
    for (struct scope_entry **at = &scope->newest; *at; at = &(*at)->older) {
        struct scope_entry *entry = *at;
        if (entry->object == object) {
            scope_release *release = entry->release;
            *at = entry->older;
            free(entry);
            return release;
        }
    }
    check_failed(__FILE__, __LINE__, "object %p is not owned", object);
}

void scope_forget(struct scope *scope, const void *object)
{
    take(scope, object);
}

void scope_drop(struct scope *scope, void *object)
{
    CHECK_OK(take(scope, object)(object));
}

int scope_close(struct scope *scope)
{
    int failures = 0;
    while (scope->newest) {
        struct scope_entry *entry = scope->newest;
        scope->newest = entry->older;
        int result = entry->release(entry->object);
        if (result) {
            fprintf(stderr, "an object could not be released: %s (errno: %s)\n", rpma_err_2str(result),
                    strerror(errno));
            ++failures;
        }
        free(entry);
    }
    return failures;
}

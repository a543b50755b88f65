// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/* Owns objects of one thread, so that a check that fails leaks nothing. */
struct scope {
    struct scope_entry *newest;
};

/* Returns 0 if the object was released without an error. */
typedef int scope_release(void *object);

void scope_add(struct scope *scope, scope_release *release, void *object);

/* Gives the object up without releasing it. */
void scope_forget(struct scope *scope, const void *object);

/* Releases one object now, and fails if that returns an error. */
void scope_drop(struct scope *scope, void *object);

/* Releases everything, the newest object first. Returns the number of failed releases. */
int scope_close(struct scope *scope);

/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions whose failures are tested, each with the objects that it needs. */
#pragma once

#include "support.h"

struct scenario {
    const char *name;
    void (*device)(void);  /* NULL for the default device */
    void (*prepare)(void); /* NULL if no preparation is needed */
    int (*run)(void);
    /* Calls whose failure alone does not make the function fail. */
    const char *tolerated[3];
    bool creates; /* the output is unchanged when the call fails */
    bool deletes; /* the object is deleted even when the call fails */
    bool uses_memory;
};

extern const struct scenario scenarios[];
extern const size_t scenario_count;

/* Creates a fresh fake stack on which scenario->run can be called. */
void set_up(const struct scenario *scenario);

/* Checks after a failed call that the output is unchanged, or that the object was deleted. */
void assert_failed_cleanly(const struct scenario *scenario);

/* Deletes the remaining objects with working calls. Fails if an object remains. */
void clean_up(const struct scenario *scenario);

/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls whose failures are swept, each with what it needs. */
#ifndef UNIT_FAILURE_SCENARIOS_H
#define UNIT_FAILURE_SCENARIOS_H 1

#include "support.h"

struct scenario {
    const char *name;
    void (*device)(void);  /* NULL for the plain one */
    void (*prepare)(void); /* NULL if no preparation is needed */
    int (*run)(void);
    /* Calls whose failure alone does not make the function fail. */
    const char *tolerated[3];
    bool creates; /* its output keeps what it held when the call fails */
    bool deletes; /* the object is gone even when the call fails */
    bool uses_memory;
};

extern const struct scenario scenarios[];
extern const size_t scenario_count;

/* A fresh stack on which scenario->run can be called. */
void set_up(const struct scenario *scenario);

/* Fails unless the call, which did not succeed, left its output alone or deleted what it had to. */
void assert_failed_cleanly(const struct scenario *scenario);

/* Deletes what is left with working calls and fails if anything stays. */
void clean_up(const struct scenario *scenario);

#endif /* UNIT_FAILURE_SCENARIOS_H */

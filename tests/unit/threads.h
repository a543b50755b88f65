/* SPDX-License-Identifier: BSD-3-Clause */
/* Running several threads at once on a peer, a connection and regions, which begin_threads_test() makes. */
#pragma once

#include "support.h"

enum {
    THREADS = 4,
    ROUNDS = 200,
    FEW_ROUNDS = 50
};

extern struct rpma_mr_local *mr;
extern struct rpma_mr_remote *remote;

int begin_threads_test(void **state);
int end_threads_test(void **state);

#define THREADS_TEST(name) DEFINE_TEST(name, begin_threads_test, end_threads_test)

/* cmocka's assertions work on the main thread only: other threads count what goes wrong. */
void expect(bool right);

/* Runs each function in a thread of its own, all starting together; fails the test if an expectation was not met. */
void run_together(void (*const runs[THREADS])(unsigned index));

/* Runs the same function in every thread. */
void run_all(void (*run)(unsigned index));

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "suite.h"

enum outcome {
    PASSED,
    FAILED,
    SKIPPED
};

struct result {
    enum outcome outcome;
    double seconds;
    char text[2048]; /* failed check or missing capability, in one line */
};

/* Runs the case in a child process and kills all processes that it started. */
struct result run_case(const struct test_case *test, int time_limit_s);

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "options.h"
#include "run.h"
#include "subject.h"

enum verdict {
    CONFORMS,
    DEVIATES,
    DEVIATES_AS_LISTED,
    LISTED_BUT_CONFORMS,
    NOT_JUDGED,
    VERDICTS
};

/* Prints the test subject. `total` is the number of cases. */
void report_begin(enum format format, const struct subject *subject, size_t total);

/* `reason` is the reason of the known deviation, or NULL. */
void report_case(const char *name, const struct result *result, const char *reason);

/* Prints the summary. Returns true if no case failed unexpectedly. */
bool report_end(void);

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

struct report;

/* Prints the test subject. `total` is the number of cases. Returns NULL if out of memory. */
struct report *report_begin(enum format format, const struct subject *subject, size_t total);

/* `reason` is the reason of the known deviation, or NULL. */
void report_case(struct report *report, const char *full_name, const struct result *result, const char *reason);

/* Prints the summary and frees the report. Returns true if no case failed unexpectedly. */
bool report_end(struct report *report);

// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_REPORT_H
#define CONFORMANCE_REPORT_H

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

/* Prints what is judged; total is the number of cases to come. NULL if out of memory. */
struct report *report_begin(enum format format, const struct subject *subject, size_t total);

/* reason is that of the deviation or NULL. */
void report_case(struct report *report, const char *full_name, const struct result *result, const char *reason);

/* Prints the rest and frees the report. True if nothing counts against the library. */
bool report_end(struct report *report);

#endif

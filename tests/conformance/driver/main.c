// SPDX-License-Identifier: BSD-3-Clause
#include "deviations.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "subject.h"
#include "suite.h"
#include "../support/address.h"

#include <stdio.h>
#include <stdlib.h>

struct selection {
    const struct test_case *test;
    char *name;
};

/* Returns the selected cases in order; the last element has the case NULL. */
static struct selection *select_cases(const struct options *options, size_t *count)
{
    size_t all = 0;
    for (const struct suite *const *suite = suites; *suite; ++suite)
        all += (*suite)->count;
    struct selection *selection = calloc(all + 1, sizeof(*selection));
    *count = 0;
    for (const struct suite *const *suite = suites; selection && *suite; ++suite) {
        for (size_t i = 0; i < (*suite)->count; ++i) {
            struct selection *entry = &selection[*count];
            if (asprintf(&entry->name, "%s.%s", (*suite)->name, (*suite)->cases[i].name) < 0)
                return NULL;
            if (!selected(options, entry->name)) {
                free(entry->name);
                continue;
            }
            entry->test = &(*suite)->cases[i];
            ++*count;
        }
    }
    return selection;
}

static bool judge_all(const struct options *options, const struct subject *subject, const struct selection *selection,
        size_t count, const struct deviations *deviations)
{
    struct report *report = report_begin(options->format, subject, count);
    if (!report) {
        fputs("rpma-conformance: out of memory\n", stderr);
        return false;
    }
    for (const struct selection *entry = selection; entry < selection + count; ++entry) {
        struct result result = run_case(entry->test, options->time_limit_s);
        report_case(report, entry->name, &result, deviation_reason(deviations, entry->name));
    }
    return report_end(report);
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    size_t count;
    struct selection *selection = select_cases(&options, &count);
    if (!selection) {
        fputs("rpma-conformance: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    if (count == 0)
        usage_error("no case matches");
    struct deviations *deviations = options.deviations ? read_deviations(options.deviations) : NULL;

    int status = EXIT_SUCCESS;
    struct subject subject = {.library = "", .device = ""};
    if (options.list) {
        for (size_t i = 0; i < count; ++i)
            puts(selection[i].name);
    } else if (!find_subject(options.addr, &subject)) {
        fprintf(stderr, "rpma-conformance: %s; run it under 'softrdma run --' or give the address of an RDMA device\n",
                subject.device);
        status = EXIT_CANNOT_RUN;
    } else {
        case_address = options.addr;
        if (!judge_all(&options, &subject, selection, count, deviations))
            status = EXIT_FAILURE;
    }
    free_deviations(deviations);
    for (size_t i = 0; i < count; ++i)
        free(selection[i].name);
    free(selection);
    return finish_output(status);
}

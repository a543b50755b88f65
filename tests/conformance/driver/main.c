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

/* Returns the selected cases in order. */
static const struct test_case **select_cases(const struct options *options, size_t *count)
{
    size_t all = 0;
    for (const struct suite *const *suite = suites; *suite; ++suite)
        all += (*suite)->count;
    const struct test_case **selection = allocated(calloc(all, sizeof(*selection)));
    for (const struct suite *const *suite = suites; *suite; ++suite) {
        for (size_t i = 0; i < (*suite)->count; ++i) {
            if (selected(options, (*suite)->cases[i].name))
                selection[(*count)++] = &(*suite)->cases[i];
        }
    }
    return selection;
}

static bool judge_all(const struct options *options, const struct subject *subject,
        const struct test_case *const *selection, size_t count)
{
    report_begin(options->format, subject, count);
    for (size_t i = 0; i < count; ++i) {
        struct result result = run_case(selection[i], options->time_limit_s);
        report_case(selection[i]->name, &result, deviation_reason(selection[i]->name));
    }
    return report_end();
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    size_t count = 0;
    const struct test_case **selection = select_cases(&options, &count);
    if (count == 0)
        usage_error("no case matches");
    if (options.deviations)
        read_deviations(options.deviations);

    int status = EXIT_SUCCESS;
    struct subject subject = {.library = "", .device = ""};
    if (options.list) {
        for (size_t i = 0; i < count; ++i)
            puts(selection[i]->name);
    } else if (!find_subject(options.addr, &subject)) {
        fprintf(stderr, "rpma-conformance: %s; run it under 'softrdma run --' or give the address of an RDMA device\n",
                subject.device);
        status = EXIT_CANNOT_RUN;
    } else {
        case_address = options.addr;
        if (!judge_all(&options, &subject, selection, count))
            status = EXIT_FAILURE;
    }
    free(selection);
    return finish_output(status);
}

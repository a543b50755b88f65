// SPDX-License-Identifier: BSD-3-Clause
/* Cases with a known result, as input of the tests of the driver. */
#include "../driver/suite.h"
#include "../support/check.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

static SUITE(known);

CASE(passes) {}

CASE(fails)
{
    assert_rpma(rpma_mr_dereg(NULL), RPMA_E_NOSUPP);
}

CASE(fails_in_an_assertion)
{
    fail_msg("a <message> with \"quotes\" & more");
}

CASE(is_skipped)
{
    skip_because("the device is %s", "imaginary");
}

CASE(crashes)
{
    raise(SIGKILL);
}

CASE(hangs)
{
    for (;;)
        pause();
}

/* Exits and leaves a process that keeps the output open. */
CASE(leaves_a_process)
{
    pid_t pid = fork();
    while (pid == 0)
        pause();
    fail_msg("left process %d", (int)pid);
}

CASE(prints_much)
{
    for (int i = 0; i < 20000; ++i)
        print_error("a line of output that is not printed in full\n");
    fail();
}

const struct suite *const suites[] = {&known_suite, NULL};

// SPDX-License-Identifier: BSD-3-Clause
/* Cases with a known result, as input of the tests of the driver. */
#include "../driver/suite.h"
#include "../support/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void passes(void **state) {}

static void fails(void **state)
{
    assert_rpma(rpma_mr_dereg(NULL), RPMA_E_NOSUPP);
}

static void fails_in_an_assertion(void **state)
{
    fail_msg("a <message> with \"quotes\" & more");
}

static void is_skipped(void **state)
{
    skip_because("the device is %s", "imaginary");
}

static void crashes(void **state)
{
    raise(SIGKILL);
}

static void hangs(void **state)
{
    for (;;)
        pause();
}

/* Exits and leaves a process that keeps the output open. */
static void leaves_a_process(void **state)
{
    pid_t pid = fork();
    while (pid == 0)
        pause();
    fail_msg("left process %d", (int)pid);
}

static void prints_much(void **state)
{
    for (int i = 0; i < 20000; ++i)
        print_error("a line of output that is not printed in full\n");
    fail();
}

static const struct test_case cases[] = {
        CASE(passes),
        CASE(fails),
        CASE(fails_in_an_assertion),
        CASE(is_skipped),
        CASE(crashes),
        CASE(hangs),
        CASE(leaves_a_process),
        CASE(prints_much),
};

static SUITE(known, cases);

const struct suite *const suites[] = {&known_suite, NULL};

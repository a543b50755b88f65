// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>

#include "registered_tests.h"

enum {
    MAX_TESTS = 64
};

static struct CMUnitTest tests[MAX_TESTS];
static int lines[MAX_TESTS];
static size_t test_count;
static CMFixtureFunction group_setup;
static CMFixtureFunction group_teardown;

void register_test(int line, struct CMUnitTest test)
{
    if (test_count == MAX_TESTS)
        abort();
    size_t at = test_count++;
    for (; at > 0 && lines[at - 1] > line; --at) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    tests[at] = test;
    lines[at] = line;
}

void set_group_fixture(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

void skip_because(const char *reason)
{
    print_message("skipped: %s\n", reason);
    skip();
    abort();
}

int run_registered_tests(void)
{
    return _cmocka_run_group_tests(program_invocation_short_name, tests, test_count, group_setup, group_teardown);
}

__attribute__((weak)) int main(int count, char **arguments)
{
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return run_registered_tests();
}

// SPDX-License-Identifier: BSD-3-Clause
#include "failure_scenarios.h"

#include <stdio.h>

// Every function that creates, connects or deletes. Its first, second, third ... call of the provider or allocation
// fails, once or permanently, until the function succeeds. For each failure: the function reports the first error with
// its errno value, outputs are unchanged, objects to delete are deleted, and no object remains.

enum {
    FIRST_ERRNO = 1000,
    MANY = 100
};

static bool is_tolerated(const struct scenario *scenario, const char *call)
{
    for (size_t i = 0; i < sizeof(scenario->tolerated) / sizeof(scenario->tolerated[0]); ++i)
        if (scenario->tolerated[i] != NULL && strcmp(scenario->tolerated[i], call) == 0)
            return true;
    return false;
}

static void assert_code(const struct scenario *scenario, const char *what, int code, int expected)
{
    if (code != expected)
        fail_msg("%s with a failing %s: %s instead of %s", scenario->name, what, rpma_err_2str(code),
                rpma_err_2str(expected));
}

// Fails the n-th provider call; false if there is none.
static bool fail_provider_call(const struct scenario *scenario, unsigned n, bool persistent)
{
    set_up(scenario);
    fake_fail_call(n, FIRST_ERRNO, persistent);
    errno = 0;
    const int code = scenario->run();
    const int error = errno;
    const char *const failed = fake_failed_call();
    if (failed == NULL) {
        assert_code(scenario, "nothing", code, 0);
        assert_int_equal(error, 0);
    } else if (is_tolerated(scenario, failed) && code == 0) {
        assert_int_equal(error, 0);
    } else if (is_tolerated(scenario, failed) && !persistent) {
        assert_code(scenario, failed, code, 0);
    } else {
        assert_code(scenario, failed, code, RPMA_E_PROVIDER);
        // A failing port query is tolerated.
        if (strcmp(failed, "ibv_query_port") == 0)
            assert_true(error > FIRST_ERRNO);
        else
            assert_int_equal(error, FIRST_ERRNO);
        assert_failed_cleanly(scenario);
    }
    clean_up(scenario);
    return failed != NULL;
}

static void fail_all_calls(void)
{
    fake_fail_call(1, FIRST_ERRNO, true);
}

// Fails the n-th request for memory, and on request the provider calls of the cleanup. Returns false if there is no
// n-th request.
static bool fail_memory(
        const struct scenario *scenario, enum fake_libc_call which, unsigned n, bool persistent, bool calls_too)
{
    set_up(scenario);
    fake_libc_on_failure(calls_too ? fail_all_calls : NULL);
    fake_libc_fail(which, n, persistent);
    const int code = scenario->run();
    const bool failed = fake_libc_failed(which);
    assert_code(scenario, "request for memory", code, failed ? RPMA_E_NOMEM : 0);
    if (failed)
        assert_failed_cleanly(scenario);
    clean_up(scenario);
    return failed;
}

static void sweep_provider_calls(bool persistent)
{
    for (size_t i = 0; i < scenario_count; ++i) {
        unsigned n = 1;
        while (n < MANY && fail_provider_call(&scenarios[i], n, persistent))
            ++n;
        assert_true(n < MANY);
        // The sweep must have made at least one call fail.
        if (n == 1)
            fail_msg("%s makes no provider call", scenarios[i].name);
    }
}

DEFINE_TEST(a_provider_call_that_fails_once_is_reported_and_leaks_nothing, NULL, NULL)
{
    sweep_provider_calls(false);
}

DEFINE_TEST(later_failures_of_provider_calls_report_the_first_error, NULL, NULL)
{
    sweep_provider_calls(true);
}

static void sweep_memory(bool persistent, bool calls_too)
{
    for (size_t i = 0; i < scenario_count; ++i) {
        unsigned n = 1;
        while (n < MANY && fail_memory(&scenarios[i], FAKE_MALLOC, n, persistent, calls_too))
            ++n;
        assert_true(n < MANY);
        if (scenarios[i].uses_memory && n == 1)
            fail_msg("%s allocates nothing", scenarios[i].name);
        for (n = 1; fail_memory(&scenarios[i], FAKE_MMAP, n, persistent, calls_too); ++n)
            assert_true(n < MANY);
    }
}

DEFINE_TEST(missing_memory_is_reported_and_leaks_nothing, NULL, NULL)
{
    sweep_memory(false, false);
    sweep_memory(true, false);
}

DEFINE_TEST(missing_memory_is_reported_even_if_cleaning_up_fails, NULL, NULL)
{
    sweep_memory(false, true);
    sweep_memory(true, true);
}

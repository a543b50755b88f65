/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that are registered by their definition, and cmocka with the headers that it requires. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#define REGISTERED_TEST(name, setup, teardown) cmocka_unit_test_setup_teardown(name, setup, teardown)
#else
#define REGISTERED_TEST(name, setup, teardown)                                                                         \
    (struct CMUnitTest) cmocka_unit_test_setup_teardown(name, setup, teardown)
#endif

/* Defines a test with its functions for setup and teardown, which may be NULL. The function body follows. */
#define DEFINE_TEST(name, setup, teardown)                                                                             \
    static void name(__attribute__((unused)) void **state);                                                            \
    __attribute__((constructor)) static void register_##name(void)                                                     \
    {                                                                                                                  \
        register_test(__LINE__, REGISTERED_TEST(name, setup, teardown));                                               \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

/* Like DEFINE_TEST. The parameter is a typed pointer to the state that the setup stores. */
#define DEFINE_TEST_WITH(parameter, name, setup, teardown)                                                             \
    static void name##_with(parameter);                                                                                \
    DEFINE_TEST(name, setup, teardown)                                                                                 \
    {                                                                                                                  \
        name##_with(*state);                                                                                           \
    }                                                                                                                  \
    static void name##_with(__attribute__((unused)) parameter)

/* Defines a test without setup and teardown. A fixture of all tests of a suite defines it before. */
#if !defined(TEST) && defined(__cplusplus)
#define TEST(name) DEFINE_TEST(name, nullptr, nullptr)
#elif !defined(TEST)
#define TEST(name) DEFINE_TEST(name, NULL, NULL)
#endif

/* Sets the functions that run before the first and after the last test. They may be NULL. */
#define GROUP_FIXTURE(setup, teardown)                                                                                 \
    __attribute__((constructor)) static void register_group_fixture(void)                                              \
    {                                                                                                                  \
        set_group_fixture(setup, teardown);                                                                            \
    }

#ifdef __cplusplus
extern "C" {
#endif

void register_test(int line, struct CMUnitTest test);
void set_group_fixture(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Skips the running test and prints the reason. */
__attribute__((noreturn)) void skip_because(const char *reason);

/* Runs the tests in the order of their lines. Returns the number of failed ones. A program without main() calls it, and
 * runs only the tests whose names match its argument, which can contain * and ?. */
int run_registered_tests(void);

#ifdef __cplusplus
}
#endif

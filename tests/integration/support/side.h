// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "check.h"
#include "deadline.h"
#include "link.h"
#include "registered_tests.h"
#include "scope.h"

/* One side of a scenario: the test, or a server process. The state of every cmocka test. */
struct side {
    struct scope scope;
    const char *addr;
    struct link *link; /* link to the test, in a server */
};

/* A server process as the test sees it. */
struct server {
    struct link *link;
    char port[8];
};

/* Function of a server process; argument is the one that start_server was given. */
struct role {
    const char *name;
    void (*run)(struct side *self, const char *argument);
};

/*
 * Starts a process of a role of this program, which must end on its own when the test has ended. It runs the role at
 * addr; the argument is any text.
 */
struct server *start_process(struct side *self, const char *addr, const char *role, const char *argument);

/* Like start_process at the address of the test. Reads the port of the endpoint from the server. */
struct server *start_server(struct side *self, const char *role, const char *argument, ...)
        __attribute__((format(printf, 3, 4)));

void kill_server(struct server *server);

int side_setup(void **state);
int side_teardown(void **state);

/* Defines a test with the parameter `self`. */
#define INTEGRATION_TEST(name) DEFINE_TEST_WITH(struct side *self, name, side_setup, side_teardown)

/* Skips the running test if one side uses another librpma, which may be older: see integration_main. */
void needs_no_older_library(void);

/*
 * The main function of a test program: runs the tests, or one role as a server. Environment:
 *   RPMA_TEST_ADDR             address to test at (default: 127.0.0.1)
 *   RPMA_TEST_REQUIRE_DEVICE   if set, fails where no device serves the address, rather than skipping the program (77)
 *   RPMA_TEST_DEADLINE_S       see deadline.h
 *   RPMA_TEST_CLIENT_LIBRARY_PATH, RPMA_TEST_SERVER_LIBRARY_PATH  directory of the librpma.so.0 that the test or its
 *                              servers must use; LD_LIBRARY_PATH leads the test there, link_start the servers. The
 *                              program is skipped (77) where the directory has none.
 */
int integration_main(int argc, char **argv, const struct role *roles);

/* roles ends with an entry without a name, or is NULL. */
#define INTEGRATION_MAIN(roles)                                                                                        \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        return integration_main(argc, argv, roles);                                                                    \
    }

/* The arguments are roles: {name, function}. */
#define INTEGRATION_MAIN_WITH_ROLES(...)                                                                               \
    static const struct role roles[] = {__VA_ARGS__, {NULL, NULL}};                                                    \
    INTEGRATION_MAIN(roles)

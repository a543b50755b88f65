// SPDX-License-Identifier: BSD-3-Clause
#include "side.h"
#include "memory_server.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CLIENT_LIBRARY "RPMA_TEST_CLIENT_LIBRARY_PATH"
#define SERVER_LIBRARY "RPMA_TEST_SERVER_LIBRARY_PATH"

/* Maximum lifetime of a server, in deadlines. A server that lives longer hangs. */
#define SERVER_LIFETIME_DEADLINES 5

/* True if a check of the running test failed. Its servers are then killed instead of waited for. */
static bool test_failed;

static const char *test_address(void)
{
    const char *addr = getenv("RPMA_TEST_ADDR");
    return addr ? addr : "127.0.0.1";
}

static int release_server(void *object)
{
    struct server *server = object;
    int result = link_finish(server->link, test_failed);
    free(server);
    return result;
}

struct server *start_process(struct side *self, const char *addr, const char *role, const char *argument)
{
    char *const arguments[] = {"server", "--role", (char *)role, (char *)addr, (char *)argument, NULL};
    struct server *server = calloc(1, sizeof(*server));
    CHECK(server != NULL);
    server->link = link_start(arguments);
    if (!server->link) {
        free(server);
        check_failed(__FILE__, __LINE__, "cannot start a server");
    }
    scope_add(&self->scope, release_server, server);
    return server;
}

struct server *start_server(struct side *self, const char *role, const char *argument, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, argument);
    vsnprintf(text, sizeof(text), argument, arguments);
    va_end(arguments);
    struct server *server = start_process(self, self->addr, role, text);
    char line[64];
    CHECK(link_read(server->link, line, sizeof(line)));
    if (sscanf(line, "port %7s", server->port) != 1)
        check_failed(__FILE__, __LINE__, "received \"%s\" instead of a port", line);
    return server;
}

void kill_server(struct server *server)
{
    link_kill(server->link);
}

static void test_check_failed(void *argument, const char *message)
{
    test_failed = true;
    fail_msg("%s", message);
}

int side_setup(void **state)
{
    struct side *self = calloc(1, sizeof(*self));
    if (!self)
        return -1;
    self->addr = test_address();
    test_failed = false;
    *state = self;
    return 0;
}

int side_teardown(void **state)
{
    struct side *self = *state;
    int failures = scope_close(&self->scope);
    free(self);
    return failures;
}

void needs_no_older_library(void)
{
    if (getenv(CLIENT_LIBRARY) || getenv(SERVER_LIBRARY))
        skip_because("an older librpma fails it");
}

/* Path of the librpma that a variable specifies. Returns false if the variable is not set. */
static bool library_wanted(const char *variable, char path[4096])
{
    const char *directory = getenv(variable);
    return directory && snprintf(path, 4096, "%s/librpma.so.0", directory) < 4096;
}

static bool library_is_missing(const char *variable)
{
    char path[4096];
    if (!library_wanted(variable, path) || access(path, R_OK) == 0)
        return false;
    fprintf(stderr, "skipped: %s not found\n", path);
    return true;
}

static bool wrong_library(const char *variable)
{
    char path[4096];
    Dl_info info;
    if (!library_wanted(variable, path) ||
            (dladdr((void *)(uintptr_t)rpma_err_2str, &info) && !strcmp(info.dli_fname, path)))
        return false;
    fprintf(stderr, "%s is not the librpma in use\n", path);
    return true;
}

static void server_check_failed(void *argument, const char *message)
{
    struct link *link = argument;
    fprintf(stderr, "server: %s\n", message);
    char line[900];
    int length = snprintf(line, sizeof(line), "failed: %s\n", message);
    for (char *at = line; at < line + length - 1; ++at) {
        if (*at == '\n')
            *at = ' ';
    }
    if (write(link->fd, line, (size_t)length) < 0)
        perror("cannot report to the test");
    _exit(1);
}

static int run_role(const struct role *role, const char *addr, const char *argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)deadline_ms() / 1000 * SERVER_LIFETIME_DEADLINES);
    struct link link = {.fd = STDIN_FILENO};
    struct side self = {.addr = addr, .link = &link};
    check_handle(server_check_failed, &link);
    role->run(&self, argument);
    char line[sizeof(link.buffer)];
    while (link_read(&link, line, sizeof(line)))
        check_failed(__FILE__, __LINE__, "unexpected \"%s\"", line);
    return scope_close(&self.scope) ? 1 : 0;
}

static int run_server(char **argv, const struct role *roles)
{
    static const struct role memory = {"memory", serve_memory};
    const struct role *role = strcmp(argv[2], memory.name) ? NULL : &memory;
    for (; !role && roles && roles->name; ++roles) {
        if (!strcmp(argv[2], roles->name))
            role = roles;
    }
    if (!role) {
        fprintf(stderr, "no role %s\n", argv[2]);
        return 2;
    }
    return run_role(role, argv[3], argv[4]);
}

int integration_main(int argc, char **argv, const struct role *roles)
{
    if (argc == 5 && !strcmp(argv[1], "--role"))
        return wrong_library(SERVER_LIBRARY) ? 1 : run_server(argv, roles);
    if (argc > 2) {
        fprintf(stderr, "usage: %s [pattern of test names]\n", argv[0]);
        return 2;
    }
    if (library_is_missing(CLIENT_LIBRARY) || library_is_missing(SERVER_LIBRARY))
        return 77;
    if (wrong_library(CLIENT_LIBRARY))
        return 1;
    struct ibv_context *device;
    if (rpma_utils_get_ibv_context(test_address(), RPMA_UTIL_IBV_CONTEXT_REMOTE, &device)) {
        fprintf(stderr, "no RDMA device serves %s: run under `softrdma run --`, or set RPMA_TEST_ADDR\n",
                test_address());
        return getenv("RPMA_TEST_REQUIRE_DEVICE") ? 1 : 77;
    }
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    check_handle(test_check_failed, NULL);
    return run_registered_tests() ? 1 : 0;
}

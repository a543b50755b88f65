// SPDX-License-Identifier: BSD-3-Clause
#include "link.h"
#include "check.h"
#include "deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((format(printf, 2, 0))) static void send_arguments(
        struct link *link, const char *format, va_list arguments)
{
    char line[sizeof(link->buffer)];
    int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    CHECK(length > 0 && (size_t)length < sizeof(line) - 1);
    line[length++] = '\n';
    CHECK_EQ(send(link->fd, line, (size_t)length, MSG_NOSIGNAL), length);
}

void send_line(struct link *link, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    send_arguments(link, format, arguments);
    va_end(arguments);
}

bool link_read(struct link *link, char *line, size_t size)
{
    int64_t until = deadline();
    for (;;) {
        char *end = memchr(link->buffer, '\n', link->fill);
        if (end) {
            size_t length = (size_t)(end - link->buffer);
            CHECK(length < size);
            memcpy(line, link->buffer, length);
            line[length] = '\0';
            link->fill -= length + 1;
            memmove(link->buffer, end + 1, link->fill);
            return true;
        }
        CHECK(link->fill < sizeof(link->buffer));
        if (!readable_by(link->fd, until))
            check_failed(__FILE__, __LINE__, "no line from the other side in time");
        ssize_t got = read(link->fd, link->buffer + link->fill, sizeof(link->buffer) - link->fill);
        if (got == 0)
            return false;
        CHECK(got > 0);
        link->fill += (size_t)got;
    }
}

void expect_line(struct link *link, const char *expected)
{
    char line[sizeof(link->buffer)];
    if (!link_read(link, line, sizeof(line)))
        check_failed(__FILE__, __LINE__, "the peer ended instead of sending \"%s\"", expected);
    if (strcmp(line, expected))
        check_failed(__FILE__, __LINE__, "received \"%s\" instead of \"%s\"", line, expected);
}

void ask(struct link *link, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    send_arguments(link, format, arguments);
    va_end(arguments);
    expect_line(link, "ok");
}

/* Returns a copy of the environment in which LD_LIBRARY_PATH is the server's library path. The caller frees both. */
static char **server_environment(char **library_path)
{
    static const char variable[] = "LD_LIBRARY_PATH=";
    const char *wanted = getenv("RPMA_TEST_SERVER_LIBRARY_PATH");
    size_t count = 0;
    while (environ[count])
        ++count;
    char **copy = calloc(count + 2, sizeof(*copy));
    CHECK(copy != NULL);
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!wanted || strncmp(environ[i], variable, sizeof(variable) - 1))
            copy[used++] = environ[i];
    }
    *library_path = NULL;
    if (wanted && *wanted) {
        CHECK(asprintf(library_path, "%s%s", variable, wanted) > 0);
        copy[used] = *library_path;
    }
    return copy;
}

/* Moves the calling thread, and the processes that it starts, to a network namespace. Returns a descriptor of the
 * previous one. */
static int move_to_network(int fd)
{
    int before = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(before >= 0);
    CHECK_EQ(setns(fd, CLONE_NEWNET), 0);
    close(fd);
    return before;
}

const char *network_of_servers(void)
{
    return getenv("RPMA_TEST_SERVER_NETWORK");
}

struct link *link_start(char *const arguments[])
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(length > 0);
    self[length] = '\0';

    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    char *library_path;
    char **environment = server_environment(&library_path);
    const char *network = network_of_servers();
    int own_network = network ? move_to_network(open(network, O_RDONLY | O_CLOEXEC)) : -1;
    struct link *link = calloc(1, sizeof(*link));
    int error = link ? posix_spawn(&link->pid, self, &actions, NULL, arguments, environment) : ENOMEM;
    if (network)
        close(move_to_network(own_network));
    free(environment);
    free(library_path);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        free(link);
        errno = error;
        return NULL;
    }
    link->fd = ends[0];
    return link;
}

void link_kill(struct link *link)
{
    kill(link->pid, SIGKILL);
    waitpid(link->pid, NULL, 0);
    link->pid = 0;
}

static int wait_for_end(pid_t pid, int *status)
{
    for (int64_t until = deadline(); now_ms() < until; sleep_ms(1)) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return 0;
    }
    return -1;
}

int link_finish(struct link *link, bool kill_it)
{
    int result = 0;
    shutdown(link->fd, SHUT_WR);
    if (link->pid && kill_it)
        link_kill(link);
    if (link->pid) {
        int status;
        if (wait_for_end(link->pid, &status)) {
            fprintf(stderr, "the server did not end; killed\n");
            link_kill(link);
            result = -1;
        } else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            fprintf(stderr, "the server ended with wait status %#x\n", (unsigned)status);
            result = -1;
        }
    }
    close(link->fd);
    free(link);
    return result;
}

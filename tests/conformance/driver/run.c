// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"
#include "options.h"
#include "../support/cmocka_headers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 10

void add_case(struct suite *suite, int number, const char *name, void (*run)(void **state))
{
    char *full_name = NULL;
    if (suite->count == sizeof(suite->cases) / sizeof(suite->cases[0]) ||
            asprintf(&full_name, "%s.%s", suite->name, name) < 0)
        abort();
    size_t at = suite->count++;
    for (; at > 0 && suite->cases[at - 1].number > number; --at)
        suite->cases[at] = suite->cases[at - 1];
    suite->cases[at] = (struct test_case){.name = full_name, .run = run, .number = number};
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Runs the case in this process. It reports failure on standard error. */
static _Noreturn void be_the_case(const struct test_case *test, int error_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(error_fd, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    unsetenv("CMOCKA_MESSAGE_OUTPUT");
    const struct CMUnitTest tests[] = {{test->name, test->run, NULL, NULL, NULL}};
    int failures = cmocka_run_group_tests_name("case", tests, NULL, NULL);
    fflush(stderr);
    _exit(failures ? EXIT_FAILURE : EXIT_SUCCESS);
}

struct output {
    char text[8192];
    size_t fill;
};

/* Returns false at the end of the output. */
static bool take_output(int fd, struct output *output)
{
    char surplus[512];
    size_t room = sizeof(output->text) - 1 - output->fill;
    ssize_t got = room ? read(fd, output->text + output->fill, room) : read(fd, surplus, sizeof(surplus));
    if (got > 0 && room)
        output->fill += (size_t)got;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Reads the output of the process until it exits. Returns false if it was killed at the time limit. */
static bool await_end(pid_t pid, int fd, double until, struct output *output, int *status)
{
    bool open = true;
    bool ended = false;
    while (!ended && now() < until) {
        struct pollfd entry = {.fd = open ? fd : -1, .events = POLLIN};
        if (poll(&entry, 1, open ? POLL_MS : 1) > 0)
            open = take_output(fd, output);
        siginfo_t info = {.si_pid = 0};
        ended = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
    }
    /* The process group cannot be reused before the case is reaped. */
    kill(-pid, SIGKILL);
    waitpid(pid, status, 0);
    while (open) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        open = poll(&entry, 1, 0) > 0 && take_output(fd, output);
    }
    output->text[output->fill] = '\0';
    return ended;
}

/* "/path/case.c:7: error: Failure!" becomes " (case.c:7)". */
static void add_place(char *to, size_t size, char *line)
{
    *strstr(line, ": error: ") = '\0';
    const char *slash = strrchr(line, '/');
    size_t fill = strlen(to);
    snprintf(to + fill, size - fill, " (%s)", slash ? slash + 1 : line);
}

/* Writes the message to one line, without cmocka's decoration. */
static void tidy(char *to, size_t size, char *from)
{
    *to = '\0';
    for (char *line = strtok(from, "\n"); line; line = strtok(NULL, "\n")) {
        const char *error = "[  ERROR   ] --- ";
        if (!strncmp(line, error, strlen(error)))
            line += strlen(error);
        else if (!strncmp(line, "[  ", 3) || strstr(line, " FAILED TEST(S)"))
            continue;
        size_t fill = strlen(to);
        if (strstr(line, ": error: Failure!"))
            add_place(to, size, line);
        else if (*line)
            snprintf(to + fill, size - fill, "%s%s", fill ? "; " : "", line);
    }
}

struct result run_case(const struct test_case *test, int time_limit_s)
{
    struct result result = {.outcome = FAILED};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        snprintf(result.text, sizeof(result.text), "pipe2: %s", strerror(errno));
        return result;
    }
    double start = now();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        be_the_case(test, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        snprintf(result.text, sizeof(result.text), "fork: %s", strerror(errno));
        close(ends[0]);
        return result;
    }
    setpgid(pid, pid);
    struct output output = {.fill = 0};
    int status = 0;
    bool in_time = await_end(pid, ends[0], start + time_limit_s, &output, &status);
    close(ends[0]);
    result.seconds = now() - start;
    tidy(result.text, sizeof(result.text), output.text);
    size_t length = strlen(result.text);
    char *rest = result.text + length;
    if (!in_time)
        snprintf(rest, sizeof(result.text) - length, "%shung: killed after %d s", length ? "; " : "", time_limit_s);
    else if (WIFSIGNALED(status))
        snprintf(rest, sizeof(result.text) - length, "%scrashed: %s", length ? "; " : "", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == EXIT_CANNOT_RUN)
        result.outcome = SKIPPED;
    else if (WEXITSTATUS(status) == 0)
        result.outcome = PASSED;
    return result;
}

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Connection between a test and a server: lines of text over a socket pair, for readiness, commands and results. */
struct link {
    int fd;
    pid_t pid; /* process of the server, in the test */
    size_t fill;
    char buffer[1024];
};

void send_line(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads the next line without the newline. Returns false if the peer has closed its end. */
bool link_read(struct link *link, char *line, size_t size);

/* Fails if the next line differs from this one. */
void expect_line(struct link *link, const char *expected);

/* Sends a line and expects "ok". */
void ask(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Starts this program again as a server of the given role; the last argument is NULL. Its LD_LIBRARY_PATH is
 * RPMA_TEST_SERVER_LIBRARY_PATH where that is set. NULL if it cannot be started.
 */
struct link *link_start(char *const arguments[]);

/* RPMA_TEST_SERVER_NETWORK: file of the network namespace in which servers are started, as if on another machine.
 * RPMA_TEST_ADDR is then its address. NULL if it is the namespace of this process. */
const char *network_of_servers(void);

/* Sends SIGKILL, and reaps the process. */
void link_kill(struct link *link);

/* Closes the socket and frees the link. Returns 0 if the server exited successfully, or was killed before. */
int link_finish(struct link *link, bool kill_it);

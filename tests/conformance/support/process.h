// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_PROCESS_H
#define CONFORMANCE_PROCESS_H

#include <sys/types.h>

/* The peer of a connection, as a process that can be stopped or killed. */
struct process {
    pid_t pid;
    int fd;
};

/*
 * Starts a process that runs the function and then waits to be killed. Call it before the case uses a device. fd is one
 * end of a socket between the two, of which the function has the other.
 */
struct process start_process(void (*run)(int fd));

/* SIGKILL; the process is gone when it returns. */
void kill_process(const struct process *process);

/* Stops the process by SIGSTOP; all its threads are stopped on return. */
void stop_process(const struct process *process);

#endif

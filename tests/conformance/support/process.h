// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

/* A process with the peer of a connection, which can be stopped or killed. */
struct process {
    pid_t pid;
    int fd;
};

/*
 * Starts a process that calls `run` and then waits until it is killed. Call before the case uses a device. `fd` is one
 * end of a socket pair; `run` gets the other end.
 */
struct process start_process(void (*run)(int fd));

/* Sends SIGKILL and waits until the process has exited. */
void kill_process(const struct process *process);

/* Sends SIGSTOP and waits until all threads are stopped. */
void stop_process(const struct process *process);

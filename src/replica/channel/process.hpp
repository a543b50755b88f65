// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "base/clock.hpp"
#include "base/fd_owner.hpp"

namespace replica
{

// Running program that is not a child of this process: neither wait() nor SIGCHLD of the application detects it. Its
// standard input and output are one end of a socket pair, its standard error is a pipe.
class process
{
public:
    // Starts the program, which is searched for in PATH. Returns 0 or an errno value.
    int start(char *const arguments[]);

    // Runs a program and returns its exit status, or -1 with errno set if it could not be started, timed out (and was
    // killed), or was killed by a signal. Standard input is /dev/null.
    static int run(char *const arguments[], int timeout_ms);

    // Local descriptors, -1 before start().
    int channel() const { return channel_.get(); }
    int messages() const { return messages_.get(); }
    // Readable when the program has exited, or -1 if unsupported. The exit then hangs up standard error.
    int pidfd() const { return pidfd_.get(); }

    // Closes the channel and waits until the program has exited. Kills it after the deadline.
    void finish(const deadline &until);

    void kill();

private:
    pollfd end_poller() const;
    bool await_end(const deadline &until) const;

    fd_owner channel_;
    fd_owner messages_;
    fd_owner pidfd_;
    pid_t pid_ = -1;
};

} // namespace replica

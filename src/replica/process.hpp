// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "clock.hpp"
#include "fd_owner.hpp"

namespace replica
{

// A running program that is not a child of this process: neither wait() nor SIGCHLD of the application sees anything of
// it. Its standard input and output are one end of a socket pair, its standard error is a pipe.
class process
{
public:
    // 0, or the errno with which the program, which is looked for in PATH, could not be started.
    int start(char *const arguments[]);

    // Starts it, waits until it has ended, and returns its exit status; -1 with errno set if it could not be started,
    // did not end in time (and was killed), or died of a signal. Standard input is /dev/null.
    static int run(char *const arguments[], int timeout_ms);

    // Both are invalid before start.
    int channel() const { return channel_.get(); }
    int messages() const { return messages_.get(); }
    // Readable as soon as the program has ended. -1 where the system has no such descriptors: then the end of the
    // program hangs up its standard error.
    int pidfd() const { return pidfd_.get(); }

    // Closes the channel, and waits until the program has ended; kills it after the deadline.
    void finish(const deadline &until);

    // Kills it, with what it has started, if it still runs.
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

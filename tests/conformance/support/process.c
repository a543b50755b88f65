// SPDX-License-Identifier: BSD-3-Clause
#include "process.h"
#include "check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct process start_process(void (*run)(int fd))
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct process process = {.pid = fork(), .fd = ends[0]};
    assert_true(process.pid >= 0);
    if (process.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        run(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    return process;
}

void kill_process(const struct process *process)
{
    assert_int_equal(kill(process->pid, SIGKILL), 0);
    assert_int_equal(waitpid(process->pid, NULL, 0), process->pid);
}

void stop_process(const struct process *process)
{
    int status = 0;
    assert_int_equal(kill(process->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(process->pid, &status, WUNTRACED), process->pid);
    assert_true(WIFSTOPPED(status));
}

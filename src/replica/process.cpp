// SPDX-License-Identifier: BSD-3-Clause
#include "process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef __SANITIZE_THREAD__
extern "C" int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...) noexcept;
#endif

namespace replica
{

namespace
{

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer takes each clone() for a fork(), and sees no synchronisation in the caller from then on. The starter
// shares the memory and the state of its caller, who sleeps meanwhile.
constexpr auto clone_process = __clone;
#else
constexpr auto clone_process = clone;
#endif

constexpr std::size_t stack_size = 256 * 1024;

// What the starter is to do, and what it did. It shares the memory and the descriptors of the caller, which sleeps.
struct order {
    char *const *arguments;
    int input;
    int output;
    int errors;
    bool wait;
    int timeout_ms;
    int error;
    pid_t pid;
    int pidfd;
    int exit_status;
};

// False: it still runs.
bool await_end(int pidfd, const deadline &until)
{
    for (;;) {
        pollfd poller{pidfd, POLLIN, 0};
        const int ready = poll(&poller, 1, until.left_ms());
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

// The program has not ended, so that its number, which is its group's, too, belongs to nobody else: what a shell
// started goes with it.
void kill_group(pid_t pid)
{
    ::kill(-pid, SIGKILL);
}

int spawn(const order &o, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, o.input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, o.output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, o.errors, STDERR_FILENO);
    // What else the program has open is its own: a lock on a file would outlive the program with the command.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    // A session of its own, and with it a group: what a terminal sends to the application is not for the program. In
    // the session of the application the kernel would hang up a program that is stopped when the starter, its parent,
    // ends.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    const int error = posix_spawnp(pid, o.arguments[0], &actions, &attributes, o.arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// The starter: a child that no wait() of the application reports, for its end raises no signal. The program is its
// child, and nobody's as soon as the starter has ended.
int starter(void *argument)
{
    auto *const o = static_cast<order *>(argument);
    pid_t pid = -1;
    o->error = spawn(*o, &pid);
    o->pid = pid;
    if (o->error != 0)
        return 0;
    o->pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (o->pidfd < 0) {
        o->error = errno;
        kill(pid, SIGKILL);
        return 0;
    }
    if (!o->wait)
        return 0;
    if (!await_end(o->pidfd, deadline(o->timeout_ms))) {
        o->error = ETIMEDOUT;
        kill_group(pid);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    o->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return 0;
}

// Runs the starter while no signal of the application can interrupt it.
void carry_out(order &o)
{
    void *const stack =
            mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        o.error = errno;
        return;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int cancelling = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    const int flags = CLONE_VM | CLONE_VFORK | CLONE_FILES;
    const int pid = clone_process(starter, static_cast<char *>(stack) + stack_size, flags, &o);
    if (pid < 0) {
        o.error = errno;
    } else {
        while (waitpid(pid, nullptr, static_cast<int>(__WCLONE)) < 0 && errno == EINTR) {
        }
    }
    pthread_setcancelstate(cancelling, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    munmap(stack, stack_size);
}

} // namespace

int process::start(char *const arguments[])
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    channel_.reset(ends[0]);
    const fd_owner other(ends[1]);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return errno;
    messages_.reset(ends[0]);
    const fd_owner errors(ends[1]);
    order o{arguments, other.get(), other.get(), errors.get(), false, 0, 0, -1, -1, -1};
    carry_out(o);
    pidfd_.reset(o.pidfd);
    pid_ = o.pid;
    return o.error;
}

int process::run(char *const arguments[], int timeout_ms)
{
    const fd_owner null(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null.valid())
        return -1;
    order o{arguments, null.get(), null.get(), STDERR_FILENO, true, timeout_ms, 0, -1, -1, -1};
    carry_out(o);
    const fd_owner pidfd(o.pidfd);
    if (o.error != 0)
        errno = o.error;
    else if (o.exit_status < 0)
        errno = ECONNRESET;
    return o.error != 0 ? -1 : o.exit_status;
}

void process::kill()
{
    pollfd poller{pidfd_.get(), POLLIN, 0};
    if (pidfd_.valid() && poll(&poller, 1, 0) == 0)
        kill_group(pid_);
}

void process::finish(const deadline &until)
{
    channel_.reset();
    if (pidfd_.valid() && !await_end(pidfd_.get(), until)) {
        kill_group(pid_);
        await_end(pidfd_.get(), deadline(1000));
    }
    messages_.reset();
    pidfd_.reset();
}

} // namespace replica

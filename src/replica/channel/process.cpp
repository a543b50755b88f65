// SPDX-License-Identifier: BSD-3-Clause
#include "channel/process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "channel/stream.hpp"
#include "no_cancellation.hpp"

#ifdef __SANITIZE_THREAD__
extern "C" int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...) noexcept;
#endif

namespace replica
{

namespace
{

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer treats each clone() as a fork(), and then misses synchronization in the caller. The intermediate
// process shares the memory of its caller, which sleeps, so __clone() bypasses the interceptor.
constexpr auto clone_process = __clone;
#else
constexpr auto clone_process = clone;
#endif

constexpr std::size_t stack_size = 256 * 1024;
constexpr std::size_t flag_size = 64 * 1024; // at least one page of any page size

// Parameters of the intermediate process. `report` is its end of a socket pair, on which it sends one spawn_result.
// `shares_memory` points to a flag that is set in the memory of the caller, but not in a copy of it.
struct spawn_request {
    char *const *arguments;
    int input;
    int output;
    int errors;
    bool wait;
    int timeout_ms;
    int report;
    const volatile bool *shares_memory;
};

// Result of the intermediate process. The message also passes a pidfd of the program, if the system supports it.
struct spawn_result {
    int error = 0;
    pid_t pid = -1;
    int exit_status = -1;
};

struct result_message {
    spawn_result content;
    iovec data{&content, sizeof(content)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};

    result_message()
    {
        header.msg_iov = &data;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof(control);
    }
};

void send_result(int socket, const spawn_result &content, int pidfd)
{
    result_message m;
    m.content = content;
    if (pidfd < 0) {
        m.header.msg_controllen = 0;
    } else {
        cmsghdr *const rights = CMSG_FIRSTHDR(&m.header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(pidfd));
        memcpy(CMSG_DATA(rights), &pidfd, sizeof(pidfd));
    }
    sendmsg(socket, &m.header, MSG_NOSIGNAL);
}

// Reads the message of an intermediate process. It has exited, so this never blocks.
spawn_result receive_result(int socket, fd_owner &pidfd)
{
    result_message m;
    if (recvmsg(socket, &m.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(m.content))
        return {.error = ECHILD};
    const cmsghdr *const rights = CMSG_FIRSTHDR(&m.header);
    int fd = -1;
    if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    pidfd.reset(fd);
    return m.content;
}

// Kills the program and its children: it is the leader of a process group.
void kill_group(pid_t pid)
{
    ::kill(-pid, SIGKILL);
}

// Kills the group and waits up to 1 s until it has ended: a shell exits before its children, which may hold locks. The
// wait is bounded because zombies of the group might never be reaped.
void kill_group_and_wait(pid_t pid)
{
    kill_group(pid);
    for (const deadline until(1000); ::kill(-pid, 0) == 0 && !until.passed();)
        poll(nullptr, 0, 1);
}

int spawn(const spawn_request &request, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, request.input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, request.output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, request.errors, STDERR_FILENO);
    // Closes the other descriptors of the application: an inherited lock on a file would outlive the application.
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    // In the session of the application, the kernel would send SIGHUP to a stopped program when the intermediate
    // process exits, and terminal signals for the application would reach the program.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    const int error = posix_spawnp(pid, request.arguments[0], &actions, &attributes, request.arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

void await_child(const spawn_request &request, spawn_result &result)
{
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    const deadline until(request.timeout_ms);
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(result.pid, &status, WNOHANG)) == 0 && result.error == 0) {
        const int left_ms = until.left_ms();
        const timespec left{left_ms / 1000, left_ms % 1000 * 1000000L};
        if (left_ms == 0)
            result.error = ETIMEDOUT;
        else
            sigtimedwait(&child_signal, nullptr, left_ms < 0 ? nullptr : &left);
    }
    if (result.error != 0) {
        kill_group(result.pid);
        ended = waitpid(result.pid, &status, 0);
    }
    result.exit_status = ended == result.pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Main function of the intermediate process, which orphans the program. No wait() of the application reports its exit.
int intermediate_main(void *argument)
{
    const spawn_request &request = *static_cast<const spawn_request *>(argument);
    signal(SIGCHLD, SIG_DFL); // if SIGCHLD is ignored, the exit status is lost
    spawn_result result;
    result.error = spawn(request, &result.pid);
    int pidfd = -1;
    if (result.error == 0 && request.wait)
        await_child(request, result);
    else if (result.error == 0 && *request.shares_memory) // valgrind would report an unknown system call
        pidfd = static_cast<int>(syscall(SYS_pidfd_open, result.pid, 0));
    send_result(request.report, result, pidfd);
    if (!*request.shares_memory) // a copy that exits without exec would make valgrind report all of its memory as lost
        execl("/bin/true", "true", nullptr);
    return 0;
}

// Runs the intermediate process with signals blocked. It shares the memory of the sleeping caller, to avoid copying a
// large program. Under valgrind, the memory is a copy.
spawn_result spawn_detached(spawn_request request, fd_owner &pidfd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return {.error = errno};
    const fd_owner receiver(ends[0]);
    const fd_owner sender(ends[1]);
    request.report = sender.get();
    void *const stack =
            mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return {.error = errno};
    auto *const shares_memory = static_cast<volatile bool *>(stack);
    madvise(stack, flag_size, MADV_WIPEONFORK);
    *shares_memory = true;
    request.shares_memory = shares_memory;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const no_cancellation uncanceled;
    spawn_result result;
    const int pid =
            clone_process(intermediate_main, static_cast<char *>(stack) + stack_size, CLONE_VM | CLONE_VFORK, &request);
    if (pid < 0) {
        result.error = errno;
    } else {
        while (waitpid(pid, nullptr, static_cast<int>(__WCLONE)) < 0 && errno == EINTR) {
        }
        result = receive_result(receiver.get(), pidfd);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    munmap(stack, stack_size);
    return result;
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
    const spawn_result result =
            spawn_detached({arguments, other.get(), other.get(), errors.get(), false, 0, -1, nullptr}, pidfd_);
    pid_ = result.pid;
    return result.error;
}

int process::run(char *const arguments[], int timeout_ms)
{
    const fd_owner null(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null.valid())
        return -1;
    fd_owner no_pidfd;
    const spawn_result result =
            spawn_detached({arguments, null.get(), null.get(), STDERR_FILENO, true, timeout_ms, -1, nullptr}, no_pidfd);
    if (result.error != 0)
        errno = result.error;
    else if (result.exit_status < 0)
        errno = ECONNRESET;
    return result.error != 0 ? -1 : result.exit_status;
}

// Returns a pollfd that reports an event when the program has exited. Without a pidfd, this is the hang-up of standard
// error, which only the program and its children have open.
pollfd process::end_poller() const
{
    return pidfd_.valid() ? pollfd{pidfd_.get(), POLLIN, 0} : pollfd{messages_.get(), 0, 0};
}

bool process::await_end(const deadline &until) const
{
    const pollfd poller = end_poller();
    return wait_for(poller.fd, poller.events, until);
}

// Kills only a running program, whose process ID and group ID cannot have been reused.
void process::kill()
{
    pollfd poller = end_poller();
    if (messages_.valid() && poll(&poller, 1, 0) == 0)
        kill_group_and_wait(pid_);
}

void process::finish(const deadline &until)
{
    channel_.reset();
    if (messages_.valid() && !await_end(until)) {
        kill_group_and_wait(pid_);
        await_end(deadline(1000));
    }
    messages_.reset();
    pidfd_.reset();
}

} // namespace replica

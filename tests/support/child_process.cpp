// SPDX-License-Identifier: BSD-3-Clause
#include "child_process.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "cmocka_headers.hpp"

pid_t fork_child()
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

child_process::child_process(std::vector<std::string> words, const options &how)
{
    std::vector<char *> arguments;
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork_child();
    if (pid_ > 0)
        return;
    const int streams[] = {how.input, how.output, how.errors};
    for (int fd = 0; fd < 3; ++fd)
        if (streams[fd] >= 0)
            dup2(streams[fd], fd);
    for (const std::string &variable : how.environment)
        putenv(const_cast<char *>(variable.c_str()));
    if (how.network < 0 || setns(how.network, CLONE_NEWNET) == 0)
        execvp(arguments[0], arguments.data());
    _exit(127);
}

child_process::child_process(child_process &&other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

child_process &child_process::operator=(child_process &&other) noexcept
{
    std::swap(pid_, other.pid_);
    return *this;
}

void child_process::kill()
{
    if (pid_ <= 0)
        return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
}

void child_process::stop() const
{
    ::kill(pid_, SIGSTOP);
    assert_int_equal(waitpid(pid_, nullptr, WUNTRACED), pid_);
}

void child_process::resume() const
{
    ::kill(pid_, SIGCONT);
}

bool child_process::has_ended()
{
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_)
        pid_ = -1;
    return pid_ < 0;
}

int child_process::wait()
{
    int status = 0;
    assert_int_equal(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

child_process start_rpmemd(const std::string &address, const std::string &directory,
        const std::vector<std::string> &arguments, child_process::options how, unsigned &port)
{
    int output[2] = {-1, -1};
    assert_int_equal(pipe(output), 0);
    std::vector<std::string> words = {getenv("RPMEMD"), "--listen", address, "--key-file", directory + "/key",
            "--poolset-dir", directory, "--log-file", directory + "/log"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    how.output = output[1];
    child_process started(std::move(words), how);
    close(output[1]);
    FILE *const from = fdopen(output[0], "r");
    if (std::fscanf(from, "rpmemd: listening on %*s port %u", &port) != 1)
        fail_msg("rpmemd did not start");
    std::fclose(from);
    return started;
}

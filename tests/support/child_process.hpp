// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

// Failures of these functions end the test.

// Forks a process that is killed when the calling thread exits.
pid_t fork_child();

// Program that a test starts. The destructor kills it.
class child_process
{
public:
    struct options {
        int input = -1, output = -1, errors = -1;  // descriptors, -1 for those of the test
        int network = -1;                          // descriptor of a network namespace, -1 for that of the test
        std::vector<std::string> environment = {}; // additional variables, NAME=VALUE
    };

    child_process() = default;
    // Starts the program, which is searched for in PATH.
    explicit child_process(std::vector<std::string> words) : child_process(std::move(words), {}) {}
    child_process(std::vector<std::string> words, const options &how);
    child_process(child_process &&other) noexcept;
    child_process &operator=(child_process &&other) noexcept;
    ~child_process() { kill(); }

    pid_t pid() const { return pid_; }
    void kill();
    // Returns after all threads have stopped.
    void stop() const;
    void resume() const;
    // Returns whether the program has ended without kill().
    bool has_ended();
    // Waits for the end. Returns the exit status, or the negative number of the signal.
    int wait();

private:
    pid_t pid_ = -1;
};

// Starts rpmemd --listen at `address` (ADDRESS:PORT, where port 0 selects any) with the key file `key` and the poolsets
// of the directory. Returns when it listens, and stores its port.
child_process start_rpmemd(const std::string &address, const std::string &directory,
        const std::vector<std::string> &arguments, child_process::options how, unsigned &port);

inline constexpr const char *rpmemd_key = "writer:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

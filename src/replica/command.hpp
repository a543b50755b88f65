// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "target.hpp"

namespace replica
{

// Argument vector of a program.
class command
{
public:
    explicit command(std::vector<std::string> words);
    command(const command &) = delete;
    command &operator=(const command &) = delete;

    // Returns the NULL-terminated array.
    char *const *words() { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<char *> pointers_;
};

// Returns the words that start the daemon at a target, whose shell runs `daemon`. Each argument is one quoted word.
std::vector<std::string> daemon_words(const target &to, const std::string &ssh, const std::string &daemon,
        const std::vector<std::string> &arguments = {});

} // namespace replica

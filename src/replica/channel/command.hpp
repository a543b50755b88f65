// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "channel/target.hpp"

namespace replica
{

class command
{
public:
    explicit command(std::vector<std::string> words);
    command(const command &) = delete;
    command &operator=(const command &) = delete;

    char *const *words() { return pointers_.data(); }

private:
    std::vector<std::string> words_;
    std::vector<char *> pointers_;
};

// Returns the words of the command that starts `daemon` at a target, where a shell runs it. Each argument is quoted.
std::vector<std::string> daemon_words(const target &to, const std::string &ssh, const std::string &daemon,
        const std::vector<std::string> &arguments = {});

} // namespace replica

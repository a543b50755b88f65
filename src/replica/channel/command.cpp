// SPDX-License-Identifier: BSD-3-Clause
#include "channel/command.hpp"

#include <utility>

namespace replica
{

namespace
{

std::string quote(const std::string &text)
{
    std::string quoted = "'";
    for (const char c : text)
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted += c;
    return quoted + "'";
}

} // namespace

command::command(std::vector<std::string> words) : words_(std::move(words))
{
    for (std::string &word : words_)
        pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
}

std::vector<std::string> daemon_words(
        const target &to, const std::string &ssh, const std::string &daemon, const std::vector<std::string> &arguments)
{
    std::string line = daemon;
    for (const std::string &argument : arguments)
        line += " " + quote(argument);
    if (to.local)
        return {"/bin/sh", "-c", line};
    std::vector<std::string> words = {ssh};
    if (!to.service.empty())
        words.insert(words.end(), {"-p", to.service.c_str()});
    const std::string user = to.user.empty() ? "" : to.user.c_str() + std::string("@");
    words.insert(words.end(), {"-T", "-oBatchMode=yes", user + to.node.c_str(), line});
    return words;
}

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#include "command.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace replica
{

namespace
{

// Appends the text as one quoted word of a shell command line and returns its length. Only counts if `to` is NULL.
std::size_t quote(char *to, const char *text)
{
    std::size_t length = 0;
    const auto put = [&](char c) {
        if (to != nullptr)
            to[length] = c;
        ++length;
    };
    put(' ');
    put('\'');
    for (; *text != '\0'; ++text) {
        if (*text != '\'') {
            put(*text);
            continue;
        }
        for (const char c : {'\'', '\\', '\'', '\''})
            put(c);
    }
    put('\'');
    return length;
}

// Returns the command line for a shell, which the caller must free, or NULL if out of memory.
char *command_line(const char *daemon, const char *const arguments[])
{
    std::size_t size = std::strlen(daemon) + 1;
    for (const char *const *argument = arguments; *argument != nullptr; ++argument)
        size += quote(nullptr, *argument);
    auto *const line = static_cast<char *>(std::malloc(size));
    if (line == nullptr)
        return nullptr;
    char *at = stpcpy(line, daemon);
    for (const char *const *argument = arguments; *argument != nullptr; ++argument)
        at += quote(at, *argument);
    *at = '\0';
    return line;
}

} // namespace

command::~command()
{
    for (char *const word : words_)
        std::free(word);
}

bool command::add(const char *text)
{
    if (count_ == max_words)
        return false;
    words_[count_] = strdup(text);
    return words_[count_++] != nullptr;
}

bool command::build(const target &to, const char *ssh, const char *daemon, const char *const arguments[])
{
    char *const line = command_line(daemon, arguments);
    if (line == nullptr)
        return false;
    bool built = true;
    if (to.local) {
        built = add("/bin/sh") && add("-c");
    } else {
        char login[sizeof(to.user) + sizeof(to.node)];
        std::snprintf(login, sizeof(login), "%s%s%s", to.user.c_str(), to.user.empty() ? "" : "@", to.node.c_str());
        built = add(ssh);
        if (!to.service.empty())
            built = built && add("-p") && add(to.service.c_str());
        built = built && add("-T") && add("-oBatchMode=yes") && add(login);
    }
    built = built && add(line);
    std::free(line);
    return built;
}

} // namespace replica

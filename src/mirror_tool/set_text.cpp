// SPDX-License-Identifier: BSD-3-Clause
#include "set_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"

namespace mirror_tool
{

namespace
{

[[noreturn]] void fail(const std::string &set_file, const std::string &remedy)
{
    throw failure(fmt::format("copies changed, but cannot write {}: {} ({})", set_file, std::strerror(errno), remedy),
            exit_failed);
}

std::string read(const std::string &path)
{
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

// Replaces a file atomically: a concurrent reader gets the old or the new content.
bool replace(const std::string &path, const std::string &text)
{
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    std::string temporary = real + ".XXXXXX";
    struct stat before {
    };
    const int fd = stat(real.c_str(), &before) == 0 ? mkstemp(temporary.data()) : -1;
    if (fd < 0)
        return false;
    const bool replaced = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          fchown(fd, before.st_uid, before.st_gid) == 0 && fchmod(fd, before.st_mode & 07777) == 0 &&
                          fsync(fd) == 0 && rename(temporary.c_str(), real.c_str()) == 0;
    const int reason = errno;
    close(fd);
    if (!replaced)
        unlink(temporary.c_str());
    errno = reason;
    return replaced;
}

} // namespace

void check_target_words(const std::string &location, const std::string &pool_set)
{
    for (const std::string &word : {location, pool_set})
        if (std::ranges::any_of(word, [](unsigned char c) { return c <= ' ' || c == '#'; }))
            throw failure(
                    fmt::format("'{}': a set file cannot contain it, because of a blank or # (use another name)", word),
                    exit_usage);
}

void add_target_line(
        const std::string &set_file, unsigned copy, const std::string &location, const std::string &pool_set)
{
    const std::string line = fmt::format("target {} {} {}", copy, location, pool_set);
    std::string text = read(set_file);
    if (!text.empty() && text.back() != '\n')
        text += '\n';
    if (!replace(set_file, text + line + '\n'))
        fail(set_file, "add the line '" + line + "'");
}

void remove_target_line(const std::string &set_file, unsigned copy)
{
    std::istringstream lines(read(set_file));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string key, number;
        words >> key >> number;
        if (key != "target" || number != std::to_string(copy))
            kept += line + '\n';
    }
    if (!replace(set_file, kept))
        fail(set_file, fmt::format("remove the line of target {}", copy));
}

} // namespace mirror_tool

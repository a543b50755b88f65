// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace replica
{

namespace
{

constexpr std::size_t max_file_size = 1 << 20;

file_error system_error()
{
    return {errno, std::strerror(errno)};
}

} // namespace

struct stat check_text_file(const fd_owner &file)
{
    struct stat found {
    };
    if (!file.valid() || fstat(file.get(), &found) != 0)
        throw system_error();
    if (!S_ISREG(found.st_mode) && !S_ISCHR(found.st_mode))
        throw file_error(EINVAL, "not a regular file");
    return found;
}

std::string read_text_file(const std::string &path, readable_by users)
{
    const fd_owner file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const struct stat found = check_text_file(file);
    if (users == readable_by::owner && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        throw file_error(EACCES, "accessible to other users (chmod 600)");
    return read_text(file);
}

// Reads small chunks, because a buffer of the maximum size costs 256 page faults, and a session reads several files.
std::string read_text(const fd_owner &file)
{
    std::string text;
    char chunk[4096];
    for (ssize_t got = 1; got != 0;) {
        got = read(file.get(), chunk, sizeof(chunk));
        if (got < 0 && errno != EINTR)
            throw system_error();
        text.append(chunk, got > 0 ? static_cast<std::size_t>(got) : 0);
        if (text.size() > max_file_size)
            throw file_error(EFBIG, "larger than 1 MiB");
    }
    return text;
}

} // namespace replica

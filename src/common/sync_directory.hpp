// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

// Makes the name of a new file durable. Returns 0 or an errno value.
inline int sync_directory_of(const std::string &path)
{
    const std::string directory = std::filesystem::path(path).parent_path();
    const int fd = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = fd >= 0 && fsync(fd) == 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    return error;
}

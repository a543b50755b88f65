// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

// Returns whether an errno value reports that this process or machine lacks resources.
constexpr bool is_local_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

// Returns an errno value if no descriptor is free, otherwise 0. For failed calls that report another error then.
inline int descriptor_shortage()
{
    const int fd = open("/", O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

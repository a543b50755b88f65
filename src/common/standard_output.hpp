// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace standard_output
{

// Returns `status`. If output was lost, for example on a full disk, prints the reason and returns EXIT_FAILURE.
inline int finish(const char *program, int status)
{
    const bool lost = std::ferror(stdout) != 0;
    errno = EIO;
    // The stream does not store the reason of an error, but another write fails for the same reason.
    if (lost)
        (void)!write(STDOUT_FILENO, "\n", 1);
    if (std::fflush(stdout) == 0 && !lost)
        return status;
    std::fprintf(stderr, "%s: standard output: %s\n", program, std::strerror(errno));
    return EXIT_FAILURE;
}

} // namespace standard_output

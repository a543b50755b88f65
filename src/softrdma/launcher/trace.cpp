// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/commands.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

// Start of a pcapng file: a section header and an Ethernet interface. The traced processes append packets.
constexpr std::uint32_t head[] = {
        0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28, // section of unknown length, version 1.0
        1, 32, 1, 0, 1u << 16 | 9, 9, 0, 32,                       // if_tsresol: 10^-9 seconds
};

} // namespace

int trace_command(const std::string &file, int argc, char **argv)
{
    if (file.empty())
        return usage("trace needs -w FILE");
    if (argc < 1)
        return usage("no program given");
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, head, sizeof(head)) != static_cast<ssize_t>(sizeof(head)) || close(fd) != 0) {
        fprintf(stderr, "softrdma: cannot write '%s': %s\n", file.c_str(), strerror(errno));
        return exit_failure;
    }
    std::error_code error;
    const auto path = std::filesystem::absolute(file, error); // the program may change its directory
    if (error || setenv("SOFTRDMA_TRACE", path.c_str(), 1) != 0) {
        fprintf(stderr, "softrdma: cannot set SOFTRDMA_TRACE: %s\n", error.message().c_str());
        return exit_failure;
    }
    return run_on_device(argv);
}

} // namespace softrdma::launcher

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/commands.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

namespace fs = std::filesystem;

constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;

} // namespace

// Next to the build tree's lib/ or where the installation put it, seen from this very executable.
std::string find_library()
{
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        return {};
    const fs::path root = self.parent_path().parent_path();
    for (const fs::path &candidate : {root / SOFTRDMA_INSTALLED_LIBRARY, root / "lib" / "libsoftrdma.so"}) {
        if (fs::exists(candidate, error))
            return candidate.lexically_normal();
    }
    return {};
}

int run_on_device(char **command)
{
    const std::string library = find_library();
    if (library.empty()) {
        fprintf(stderr, "softrdma: libsoftrdma.so not found beside this program; install both together\n");
        return exit_failure;
    }
    if (library.find_first_of(": ") != std::string::npos) {
        fprintf(stderr, "softrdma: cannot preload '%s': move it to a path without blanks and colons\n",
                library.c_str());
        return exit_failure;
    }
    std::string preload = library;
    if (const char *before = getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
        preload += std::string(":") + before;
    if (setenv("LD_PRELOAD", preload.c_str(), 1) != 0) {
        fprintf(stderr, "softrdma: cannot set LD_PRELOAD: %s\n", strerror(errno));
        return exit_failure;
    }
    execvp(command[0], command);
    const int error = errno;
    fprintf(stderr, "softrdma: cannot run '%s': %s\n", command[0], strerror(error));
    return error == ENOENT || error == ENOTDIR ? exit_not_found : exit_not_executable;
}

int run_command(int argc, char **argv)
{
    return argc < 1 ? usage("no program given") : run_on_device(argv);
}

} // namespace softrdma::launcher

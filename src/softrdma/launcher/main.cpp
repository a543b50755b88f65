// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <getopt.h>
#include <string>
#include <unistd.h>

namespace
{

namespace fs = std::filesystem;

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;
constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;

constexpr char help[] = R"(Usage: softrdma run [--] PROGRAM [ARGUMENT...]
       softrdma --help | --version

Runs PROGRAM on a software RDMA device: its libibverbs and librdmacm calls are served over TCP,
without RDMA hardware, kernel modules or privileges.

  -h, --help     print this text
  -V, --version  print the version

See softrdma(1) for the environment variables and the guarantees of the device.
)";

int usage(const std::string &problem)
{
    fprintf(stderr, "softrdma: %s; try 'softrdma --help'\n", problem.c_str());
    return exit_usage;
}

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

int run(char **command)
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

} // namespace

int main(int argc, char **argv)
{
    constexpr std::array<option, 3> options = {{
            {"help", no_argument, nullptr, 'h'},
            {"version", no_argument, nullptr, 'V'},
            {nullptr, 0, nullptr, 0},
    }};
    opterr = 0;
    // "+": what follows the first plain word belongs to the program that is run.
    for (int c = 0; (c = getopt_long(argc, argv, "+hV", options.data(), nullptr)) != -1;) {
        if (c == 'h')
            return fputs(help, stdout) < 0 ? exit_failure : 0;
        if (c == 'V')
            return printf("softrdma %s\n", SOFTRDMA_VERSION) < 0 ? exit_failure : 0;
        return usage(std::string("unknown option '") + argv[optind - 1] + "'");
    }
    if (optind >= argc)
        return usage("no command given");
    if (strcmp(argv[optind], "run") != 0)
        return usage(std::string("unknown command '") + argv[optind] + "'");
    int first = optind + 1;
    if (first < argc && strcmp(argv[first], "--") == 0)
        ++first;
    else if (first < argc && argv[first][0] == '-')
        return usage(std::string("unknown option '") + argv[first] + "' of run");
    if (first >= argc)
        return usage("no program given");
    return run(argv + first);
}

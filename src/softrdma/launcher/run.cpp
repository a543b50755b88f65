// SPDX-License-Identifier: BSD-3-Clause
#include "base/config.hpp"
#include "launcher/commands.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

namespace fs = std::filesystem;

constexpr int exit_not_executable = 126;
constexpr int exit_not_found = 127;

bool hardware_is_active()
{
    std::error_code error;
    for (const auto &device : fs::directory_iterator("/sys/class/infiniband", error)) {
        std::error_code ignored;
        for (const auto &port : fs::directory_iterator(device.path() / "ports", ignored)) {
            std::ifstream file(port.path() / "state");
            std::string state;
            if (std::getline(file, state) && state.find("ACTIVE") != std::string::npos)
                return true;
        }
    }
    return false;
}

// Finds a file of the build tree or the installation. Returns an empty path, after a message, if it is not found.
fs::path find_beside(const char *installed, const char *built)
{
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) {
        fprintf(stderr, "softrdma: /proc/self/exe: %s (the launcher needs /proc)\n", error.message().c_str());
        return {};
    }
    const fs::path root = self.parent_path().parent_path();
    for (const fs::path &candidate : {root / installed, root / "lib" / built}) {
        if (fs::exists(candidate, error))
            return candidate.lexically_normal();
    }
    fprintf(stderr, "softrdma: %s not found beside this program (install both together)\n", built);
    return {};
}

int set_variable(const char *name, const std::string &value)
{
    if (setenv(name, value.c_str(), 1) == 0)
        return 0;
    fprintf(stderr, "softrdma: cannot set %s: %s\n", name, strerror(errno));
    return exit_failure;
}

// Returns whether a preloaded library is the device, from another `softrdma run`.
bool is_device(const std::string &library)
{
    const fs::path path(library);
    const fs::path directory = path.parent_path().filename();
    const bool is_dropin = directory.empty() || directory == "dropin"; // empty: see preload()
    return path.filename() == "libsoftrdma.so" || (is_dropin && path.filename() == "libibverbs.so.1");
}

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return value == nullptr ? "" : value;
}

// LD_PRELOAD without the device, which must not be in a process twice.
std::string other_preloads()
{
    std::istringstream list(variable("LD_PRELOAD"));
    std::string result;
    for (std::string library; std::getline(list, library, ':');) {
        if (!is_device(library))
            result += (result.empty() ? "" : ":") + library;
    }
    return result;
}

std::string list_with(const std::string &entry, const std::string &before, bool at_end)
{
    if (before.empty())
        return entry;
    return at_end ? before + ":" + entry : entry + ":" + before;
}

// The dynamic linker splits LD_PRELOAD at blanks. It finds a library with a blank in its path by its name, in a
// directory of LD_LIBRARY_PATH. The program's own directories come first there, unless the library replaces others.
int preload(const fs::path &library, bool is_dropin)
{
    const bool has_blank = library.native().find(' ') != std::string::npos;
    if (has_blank || is_dropin) {
        const std::string list = list_with(library.parent_path(), variable("LD_LIBRARY_PATH"), !is_dropin);
        if (const int failed = set_variable("LD_LIBRARY_PATH", list); failed != 0)
            return failed;
    }
    return set_variable("LD_PRELOAD", list_with(has_blank ? library.filename() : library, other_preloads(), false));
}

int preload_device(const run_choice &how)
{
    const fs::path found =
            how.dropin ? find_beside(SOFTRDMA_INSTALLED_DROPIN, "dropin/libibverbs.so.1") : fs::path(find_library());
    if (found.empty())
        return exit_failure;
    if (found.native().find_first_of(":;") != std::string::npos) {
        fprintf(stderr, "softrdma: cannot preload '%s': colon or semicolon in the path (move it)\n", found.c_str());
        return exit_failure;
    }
    return preload(found, how.dropin);
}

// Start of a pcapng file: a section header and an Ethernet interface. The traced processes append packets.
constexpr std::uint32_t head[] = {
        0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28, // section of unknown length, version 1.0
        1, 32, 1, 0, 1u << 16 | 9, 9, 0, 32,                       // if_tsresol: 10^-9 seconds
};

} // namespace

std::string find_library()
{
    return find_beside(SOFTRDMA_INSTALLED_LIBRARY, "libsoftrdma.so");
}

int run_on_device(char **command, const run_choice &how)
{
    config::check();
    config::report_unknown();
    if (!how.prefer_hardware || !hardware_is_active()) {
        if (const int failed = preload_device(how); failed != 0)
            return failed;
        warn_if_not_preloadable(command[0]);
    }
    execvp(command[0], command);
    const int error = errno;
    fprintf(stderr, "softrdma: cannot run '%s': %s\n", command[0], strerror(error));
    return error == ENOENT || error == ENOTDIR ? exit_not_found : exit_not_executable;
}

int run_command(const run_choice &how, int argc, char **argv)
{
    return argc < 1 ? usage("no program given") : run_on_device(argv, how);
}

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

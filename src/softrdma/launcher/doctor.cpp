// SPDX-License-Identifier: BSD-3-Clause
#include "base/unique_fd.hpp"
#include "launcher/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <vector>

namespace softrdma::launcher
{

namespace
{

namespace fs = std::filesystem;

constexpr int max_interpreters = 4; // limit of the kernel
constexpr std::array<const char *, 2> replaced = {"libibverbs.so", "librdmacm.so"};
constexpr const char *libibverbs_marker = "RDMAV_HUGEPAGES_SAFE"; // variable that only libibverbs reads

struct libraries {
    std::map<std::string, std::string> needed_by; // name of a library: file that needs it first
    std::vector<std::string> files;
    std::string missing; // name of a library that is not installed
};

struct program_file {
    bool is_elf = false;
    std::string interpreter;
    const char *reason = nullptr; // condition that keeps preloaded libraries out of the program, or NULL
    const char *remedy = nullptr;
};

bool read_elf(const fs::path &file, Elf64_Ehdr &header, std::string &interpreter)
{
    std::ifstream in(file, std::ios::binary);
    in.read(reinterpret_cast<char *>(&header), sizeof(header));
    if (!in || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
        return true;
    in.seekg(static_cast<std::streamoff>(header.e_phoff));
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment{};
        in.read(reinterpret_cast<char *>(&segment), sizeof(segment));
        if (!in || segment.p_type != PT_INTERP)
            continue;
        in.seekg(static_cast<std::streamoff>(segment.p_offset));
        std::getline(in, interpreter, '\0');
        break;
    }
    return true;
}

bool changes_user(const fs::path &file)
{
    struct stat status = {};
    return stat(file.c_str(), &status) == 0 && (((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) ||
                                                       ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()));
}

// File capabilities take effect for users other than root only.
bool gains_capabilities(const fs::path &file)
{
    return getuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
}

// Returns the file that execvp() finds, or an empty path.
fs::path file_of(const std::string &program)
{
    if (program.find('/') != std::string::npos)
        return program;
    const char *list = getenv("PATH");
    std::string rest = list != nullptr ? list : "";
    while (!rest.empty()) {
        const std::size_t end = rest.find(':');
        fs::path candidate = fs::path(rest.substr(0, end)) / program;
        if (access(candidate.c_str(), X_OK) == 0)
            return candidate;
        rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    return {};
}

program_file inspect(const fs::path &file)
{
    Elf64_Ehdr launcher{};
    Elf64_Ehdr header{};
    program_file result;
    std::string unused;
    result.is_elf = read_elf(file, header, result.interpreter);
    if (!result.is_elf || !read_elf("/proc/self/exe", launcher, unused))
        return result;
    const auto blocked = [&result](const char *reason, const char *remedy) {
        result.reason = reason;
        result.remedy = remedy;
        return result;
    };
    if (header.e_ident[EI_CLASS] != launcher.e_ident[EI_CLASS] || header.e_machine != launcher.e_machine)
        return blocked("is a program of another architecture", "install softrdma for that architecture");
    // The dynamic linker can be called as a program.
    if (result.interpreter.empty() && !file.filename().string().starts_with("ld-"))
        return blocked("is linked statically", "link it dynamically");
    if (!result.interpreter.empty() && !fs::path(result.interpreter).filename().string().starts_with("ld-linux"))
        return blocked("uses another C library than glibc", "build it for glibc");
    if (changes_user(file))
        return blocked("changes its user or group (set-user-ID, set-group-ID)", "run a copy of the file as its owner");
    if (gains_capabilities(file))
        return blocked("has file capabilities", "run a copy of the file, or run it as root");
    return result;
}

// Output of the dynamic linker, which resolves the libraries of a program without running it.
std::string list_libraries(const std::string &linker, const fs::path &file)
{
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return {};
    const unique_fd in(pipe_ends[0]);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        dup2(pipe_ends[1], STDERR_FILENO);
        unsetenv("LD_PRELOAD");
        unsetenv("LD_DEBUG_OUTPUT");
        setenv("LD_DEBUG", "files", 1);
        execl(linker.c_str(), linker.c_str(), "--list", file.c_str(), nullptr);
        _exit(exit_failure);
    }
    close(pipe_ends[1]);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = read(in.get(), part.data(), part.size())) > 0;)
        text.append(part.data(), static_cast<std::size_t>(n));
    if (child > 0)
        waitpid(child, nullptr, 0);
    return text;
}

std::string between(const std::string &line, const char *start, const char *end)
{
    const std::size_t at = line.find(start);
    if (at == std::string::npos)
        return {};
    const std::size_t begin = at + strlen(start);
    const std::size_t stop = line.find(end, begin);
    return stop == std::string::npos ? std::string() : line.substr(begin, stop - begin);
}

libraries libraries_of(const std::string &linker, const fs::path &file)
{
    libraries result;
    std::istringstream lines(list_libraries(linker, file));
    for (std::string line; std::getline(lines, line);) {
        if (const std::string name = between(line, "file=", " ["); line.find("needed by") != std::string::npos)
            result.needed_by.try_emplace(name, between(line, "needed by ", " ["));
        else if (const std::string found = between(line, "=> ", " (0x"); !found.empty())
            result.files.push_back(found);
        else if (result.missing.empty())
            result.missing = between(line, "error while loading shared libraries: ", ": ");
    }
    return result;
}

bool has_text(const fs::path &file, const char *text)
{
    std::ifstream in(file, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    return all.find(text) != std::string::npos;
}

// Interpreter of a script, or argument of its /usr/bin/env. Empty if the file is not a script.
std::string interpreter_of(const fs::path &file)
{
    std::ifstream in(file, std::ios::binary);
    std::string line;
    if (!std::getline(in, line) || !line.starts_with("#!"))
        return {};
    std::istringstream words(line.substr(2));
    std::string word;
    words >> word;
    if (fs::path(word).filename() != "env")
        return word;
    while (words >> word && (word.starts_with('-') || word.find('=') != std::string::npos)) {
    }
    return word;
}

int report(const std::string &program, const char *verdict, const std::string &finding, const std::string &advice)
{
    printf("%s: %s: %s (%s)\n", program.c_str(), verdict, finding.c_str(), advice.c_str());
    return strcmp(verdict, "usable") == 0 ? 0 : exit_failure;
}

int examine(const fs::path &file, const std::string &program, bool is_interpreter)
{
    const program_file facts = inspect(file);
    if (facts.reason != nullptr)
        return report(program, "not usable", facts.reason, facts.remedy);
    const std::string run = "softrdma run -- " + program;
    const libraries all = libraries_of(facts.interpreter.empty() ? file.string() : facts.interpreter, file);
    const auto is_missing = [&all](const char *library) { return all.missing.starts_with(library); };
    for (const char *library : replaced) {
        const auto found = all.needed_by.lower_bound(library);
        if (found == all.needed_by.end() || !found->first.starts_with(library))
            continue;
        const bool is_direct = found->second == file;
        return report(program, "usable", "links " + found->first + (is_direct ? "" : " through " + found->second),
                is_missing(library) ? "softrdma run --dropin -- " + program + ", or install " + found->first : run);
    }
    if (!all.missing.empty())
        return report(program, "not usable", "library " + all.missing + " not found", "install it");
    std::vector<std::string> files = all.files;
    files.insert(files.begin(), file);
    for (const std::string &candidate : files) {
        for (const char *library : replaced) {
            if (has_text(candidate, library))
                return report(program, "usable", "calls dlopen for " + std::string(library) + " in " + candidate, run);
        }
    }
    for (const std::string &candidate : files) {
        if (has_text(candidate, libibverbs_marker))
            return report(program, "not usable", "contains a static libibverbs in " + candidate, "link it dynamically");
    }
    const bool has_plugins = std::ranges::any_of(files, [](const std::string &candidate) {
        const std::string name = fs::path(candidate).filename();
        return !name.starts_with("libc.so") && has_text(candidate, "dlopen");
    });
    if (is_interpreter || has_plugins)
        return report(program, "usable",
                (is_interpreter ? "script of " + file.string() : "program with plugins") +
                        ", which can load libibverbs at run time",
                run);
    return report(program, "no RDMA", "neither the program nor its libraries link or open libibverbs",
            "softrdma run reaches the programs that it starts");
}

} // namespace

void warn_if_not_preloadable(const char *program)
{
    const char *reason = inspect(file_of(program)).reason;
    if (reason != nullptr)
        fprintf(stderr, "softrdma: '%s' %s: cannot preload softrdma (running without the device)\n", program, reason);
}

int doctor_command(int argc, char **argv)
{
    if (argc != 1)
        return usage("doctor takes one program");
    const std::string program = argv[0];
    fs::path file = file_of(program);
    for (int depth = 0; depth <= max_interpreters; ++depth) {
        errno = file.empty() ? ENOENT : fs::is_directory(file) ? EISDIR : 0;
        if (errno != 0 || access(file.c_str(), X_OK) != 0) {
            fprintf(stderr, "softrdma: '%s': not executable: %s (check the name and PATH)\n",
                    file.empty() ? program.c_str() : file.c_str(), strerror(errno));
            return exit_failure;
        }
        if (inspect(file).is_elf)
            return examine(file, program, depth > 0);
        const std::string interpreter = interpreter_of(file);
        if (interpreter.empty())
            break;
        file = file_of(interpreter);
    }
    fprintf(stderr, "softrdma: '%s': neither an ELF program nor a script (name the program that it starts)\n",
            program.c_str());
    return exit_failure;
}

} // namespace softrdma::launcher

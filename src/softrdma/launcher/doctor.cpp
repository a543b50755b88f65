// SPDX-License-Identifier: BSD-3-Clause
#include "base/unique_fd.hpp"
#include "launcher/commands.hpp"
#include "launcher/program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <sys/wait.h>
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

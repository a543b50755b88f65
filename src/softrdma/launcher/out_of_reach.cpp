// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/commands.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

namespace fs = std::filesystem;

// As execvp() finds it. Empty if it does not.
fs::path file_of(const std::string &program)
{
    if (program.find('/') != std::string::npos)
        return program;
    const char *list = getenv("PATH");
    std::string left = list != nullptr ? list : "";
    while (!left.empty()) {
        const std::size_t end = left.find(':');
        fs::path candidate = fs::path(left.substr(0, end)) / program;
        if (access(candidate.c_str(), X_OK) == 0)
            return candidate;
        left = end == std::string::npos ? "" : left.substr(end + 1);
    }
    return {};
}

// A program of 64 bits that no dynamic linker starts. The linker itself, which can be called as a program, is none.
bool is_static(const fs::path &file)
{
    std::ifstream in(file, std::ios::binary);
    Elf64_Ehdr header{};
    in.read(reinterpret_cast<char *>(&header), sizeof(header));
    if (!in || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
            header.e_phentsize != sizeof(Elf64_Phdr) || file.filename().string().starts_with("ld-"))
        return false;
    in.seekg(static_cast<std::streamoff>(header.e_phoff));
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr part{};
        in.read(reinterpret_cast<char *>(&part), sizeof(part));
        if (!in || part.p_type == PT_INTERP)
            return false;
    }
    return true;
}

bool changes_user(const fs::path &file)
{
    struct stat status {
    };
    return stat(file.c_str(), &status) == 0 && (((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) ||
                                                       ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()));
}

} // namespace

void warn_if_out_of_reach(const char *program)
{
    const fs::path file = file_of(program);
    const char *why = is_static(file)      ? "is linked statically"
                      : changes_user(file) ? "changes its user or group (set-user-ID, set-group-ID)"
                                           : nullptr;
    if (why != nullptr)
        fprintf(stderr, "softrdma: '%s' %s: the device cannot be put under it, and it runs without\n", program, why);
}

} // namespace softrdma::launcher

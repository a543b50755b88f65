// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/program.hpp"
#include "launcher/commands.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

namespace fs = std::filesystem;

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
    struct stat status {
    };
    return stat(file.c_str(), &status) == 0 && (((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) ||
                                                       ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()));
}

// File capabilities take effect for users other than root only.
bool gains_capabilities(const fs::path &file)
{
    return getuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
}

} // namespace

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

void warn_if_not_preloadable(const char *program)
{
    const char *reason = inspect(file_of(program)).reason;
    if (reason != nullptr)
        fprintf(stderr, "softrdma: '%s' %s: cannot preload softrdma (running without the device)\n", program, reason);
}

} // namespace softrdma::launcher

// SPDX-License-Identifier: BSD-3-Clause
#include "store/process_count.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace rpmemd
{

namespace
{

bool is_number(const std::string &name)
{
    return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

void each_process_like_this(const std::function<void(const std::string &)> &f)
{
    struct stat self {
    };
    if (stat("/proc/self/exe", &self) != 0)
        return;
    const std::string own_name = std::to_string(getpid());
    const uid_t user = getuid();
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
            entry.increment(error)) {
        const std::string name = entry->path().filename();
        struct stat process {
        }, program{};
        // Only the owner of a process and root can read its executable link.
        if (is_number(name) && name != own_name && stat(entry->path().c_str(), &process) == 0 &&
                process.st_uid == user && stat((entry->path() / "exe").c_str(), &program) == 0 &&
                program.st_dev == self.st_dev && program.st_ino == self.st_ino)
            f(entry->path());
    }
}

unsigned processes_like_this()
{
    unsigned count = 0;
    each_process_like_this([&](const std::string &) { ++count; });
    return count;
}

} // namespace rpmemd

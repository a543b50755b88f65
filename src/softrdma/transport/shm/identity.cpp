// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/identity.hpp"
#include "base/process.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace softrdma
{

static std::string contents(const char *path)
{
    std::string text(1024, '\0');
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text.data(), text.size());
    if (fd >= 0)
        close(fd);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
}

static std::array<std::uint8_t, 16> boot_id()
{
    std::array<std::uint8_t, 16> id{};
    std::size_t nibbles = 0;
    for (const char c : contents("/proc/sys/kernel/random/boot_id")) {
        const char digit[] = {c, '\0'};
        char *end = nullptr;
        const auto value = strtoul(digit, &end, 16);
        if (end == digit || nibbles == 2 * id.size())
            continue;
        id[nibbles / 2] = static_cast<std::uint8_t>(static_cast<unsigned long>(id[nibbles / 2]) << 4 | value);
        ++nibbles;
    }
    return id;
}

std::uint64_t start_time_of(pid_t pid)
{
    const std::string stat = contents(("/proc/" + std::to_string(pid) + "/stat").c_str());
    const auto name_end = stat.rfind(')'); // the name may contain any character
    if (name_end == std::string::npos)
        return 0;
    std::uint64_t start_time = 0; // field 22; the name is field 2
    sscanf(stat.c_str() + name_end + 1,
            "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64, &start_time);
    return start_time;
}

bool yama_restricts()
{
    return contents("/proc/sys/kernel/yama/ptrace_scope").starts_with('1');
}

const identity &own_identity()
{
    static constinit process::single<identity> value;
    return value.get([] {
        auto i = std::make_unique<identity>();
        i->boot = boot_id();
        i->uid = geteuid();
        i->pid = static_cast<std::uint32_t>(getpid());
        i->start_time = start_time_of(getpid());
        return i.release();
    });
}

} // namespace softrdma

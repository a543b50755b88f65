// SPDX-License-Identifier: BSD-3-Clause
#include "store/takeover.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd_owner.hpp"
#include "store/process_count.hpp"

namespace rpmemd
{

namespace
{

// Ignored by default, so that it does not end a daemon of an older version.
constexpr int request_signal = SIGURG;
constexpr std::string_view client_variable = "SSH_CONNECTION=";

bool has_open(const std::string &process, const struct stat &file)
{
    std::error_code error;
    for (std::filesystem::directory_iterator entry(process + "/fd", error), end; !error && entry != end;
            entry.increment(error)) {
        struct stat found {
        };
        if (stat(entry->path().c_str(), &found) == 0 && found.st_dev == file.st_dev && found.st_ino == file.st_ino)
            return true;
    }
    return false;
}

// Returns the first word of the variable, the address of the client. Empty for a client on this machine.
std::string client_of(const std::string &process)
{
    std::ifstream environment(process + "/environ", std::ios::binary);
    for (std::string variable; std::getline(environment, variable, '\0');)
        if (variable.starts_with(client_variable))
            return variable.substr(client_variable.size(), variable.find(' ') - client_variable.size());
    return "";
}

} // namespace

bool request_takeover(int file)
{
    struct stat facts {
    };
    if (fstat(file, &facts) != 0)
        return false;
    bool requested = false;
    const std::string own_client = client_of("/proc/self");
    each_process_like_this([&](const std::string &process) {
        const pid_t pid = std::stoi(std::filesystem::path(process).filename());
        // The process ID cannot be reused while the descriptor is open.
        const replica::fd_owner holder(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (holder.valid() && has_open(process, facts) && client_of(process) == own_client)
            requested = syscall(SYS_pidfd_send_signal, holder.get(), request_signal, nullptr, 0) == 0 || requested;
    });
    return requested;
}

int open_takeover_requests()
{
    sigset_t requests;
    sigemptyset(&requests);
    sigaddset(&requests, request_signal);
    if (pthread_sigmask(SIG_BLOCK, &requests, nullptr) != 0)
        return -1;
    return signalfd(-1, &requests, SFD_CLOEXEC | SFD_NONBLOCK);
}

} // namespace rpmemd

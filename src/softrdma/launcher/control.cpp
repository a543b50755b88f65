// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

constexpr int patience_ms = 500;
constexpr std::size_t most_text = 65536;

class descriptor
{
public:
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor() { close(fd_); }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    int get() const noexcept { return fd_; }

private:
    int fd_;
};

// The name could have been taken by another process: its number has to be the one asked for.
bool comes_from(msghdr &message, int pid)
{
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
        return false;
    ucred sender{};
    memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    return sender.pid == pid;
}

bool is_ours(int pid)
{
    struct stat st {
    };
    const std::string directory = "/proc/" + std::to_string(pid);
    return stat(directory.c_str(), &st) == 0 && (geteuid() == 0 || st.st_uid == geteuid());
}

} // namespace

contact ask(int pid, const std::string &request, std::string &reply)
{
    const descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int on = 1;
    if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
            bind(fd.get(), reinterpret_cast<const sockaddr *>(&name), sizeof(name.sun_family)) != 0)
        return contact::absent;
    const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "softrdma/%d", pid);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
    if (sendto(fd.get(), request.data(), request.size(), 0, reinterpret_cast<const sockaddr *>(&name), size) < 0)
        return errno == EAGAIN ? contact::silent : contact::absent;
    pollfd ready{fd.get(), POLLIN, 0};
    if (poll(&ready, 1, patience_ms) != 1)
        return contact::silent;
    reply.resize(most_text);
    iovec piece{reply.data(), reply.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    const ssize_t got = recvmsg(fd.get(), &message, 0);
    reply.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return got > 0 && comes_from(message, pid) ? contact::answered : contact::absent;
}

std::vector<int> device_processes()
{
    std::vector<int> pids;
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
        const auto at = line.find(" @softrdma/");
        if (at == std::string::npos)
            continue;
        const auto pid = parse_pid(line.c_str() + at + strlen(" @softrdma/"));
        if (pid && is_ours(*pid))
            pids.push_back(*pid);
    }
    std::sort(pids.begin(), pids.end());
    pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
    return pids;
}

std::optional<int> parse_pid(const char *text)
{
    char *end = nullptr;
    const long value = strtol(text, &end, 10);
    return end == text || *end != '\0' || value < 1 || value > INT_MAX ? std::nullopt : std::optional<int>(value);
}

} // namespace softrdma::launcher

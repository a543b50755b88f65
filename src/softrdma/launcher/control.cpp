// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

constexpr auto answer_timeout = std::chrono::milliseconds(500);
constexpr std::size_t max_text_size = 65536;

bool is_permitted(int pid)
{
    struct stat st {
    };
    const std::string directory = "/proc/" + std::to_string(pid);
    return stat(directory.c_str(), &st) == 0 && (geteuid() == 0 || st.st_uid == geteuid());
}

// True if the process has the socket open, or may have it because its descriptors are not readable.
bool holds_socket(int pid, const std::string &inode)
{
    const std::string link = "socket:[" + inode + "]";
    std::error_code error;
    for (std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", error), end;
            !error && at != end; at.increment(error)) {
        std::error_code unreadable;
        if (std::filesystem::read_symlink(at->path(), unreadable) == link)
            return true;
    }
    return error == std::errc::permission_denied;
}

// Control socket @softrdma/PID/NUMBER. Any process can create the name, so the process must have the socket open, and
// the kernel must attribute responses to it.
struct control_name {
    int pid;
    std::string text; // name without the leading zero byte
};

std::vector<control_name> control_names()
{
    constexpr const char *prefix = " @softrdma/";
    std::vector<control_name> names;
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
        const auto at = line.find(prefix);
        if (at == std::string::npos)
            continue;
        const auto begin = at + strlen(prefix);
        const auto end = line.find('/', begin);
        if (end == std::string::npos)
            continue;
        const int pid = parse_pid(line.substr(begin, end - begin).c_str()).value_or(0);
        std::istringstream fields(line);
        std::string inode;
        for (int field = 0; field < 7; ++field) // the last one is the inode
            fields >> inode;
        if (pid > 0 && is_permitted(pid) && holds_socket(pid, inode))
            names.push_back({pid, line.substr(at + 2)});
    }
    return names;
}

bool send_to(int fd, const std::string &name, const std::string &request)
{
    sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
    if (name.size() >= sizeof(to.sun_path))
        return false;
    memcpy(to.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return sendto(fd, request.data(), request.size(), 0, reinterpret_cast<const sockaddr *>(&to), size) >= 0;
}

bool comes_from(msghdr &message, int pid)
{
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
        return false;
    ucred sender{};
    memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    return sender.pid == pid;
}

bool receive_from(int fd, int pid, std::string &reply)
{
    reply.resize(max_text_size);
    iovec segment{reply.data(), reply.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra;
    msghdr message{};
    message.msg_iov = &segment;
    message.msg_iovlen = 1;
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    const ssize_t got = recvmsg(fd, &message, 0);
    reply.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return got > 0 && comes_from(message, pid);
}

} // namespace

contact send_request(int pid, const std::string &request, std::string &reply)
{
    const unique_fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    const int on = 1;
    if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
            bind(fd.get(), reinterpret_cast<const sockaddr *>(&any), sizeof(any.sun_family)) != 0)
        return contact::absent;
    contact found = contact::absent;
    for (const control_name &name : control_names()) {
        if (name.pid == pid && (send_to(fd.get(), name.text, request) || errno == EAGAIN))
            found = contact::unresponsive;
    }
    const auto deadline = std::chrono::steady_clock::now() + answer_timeout;
    while (found == contact::unresponsive) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ready{fd.get(), POLLIN, 0};
        if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) != 1)
            break;
        if (receive_from(fd.get(), pid, reply))
            found = contact::answered;
    }
    return found;
}

std::vector<int> device_processes()
{
    std::vector<int> pids;
    for (const control_name &name : control_names())
        pids.push_back(name.pid);
    std::sort(pids.begin(), pids.end());
    pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
    return pids;
}

std::string printable(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        char escaped[8];
        if (c == '\n' || (c >= ' ' && c <= '~'))
            out += c;
        else if (snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c)) > 0)
            out += escaped;
    }
    return out;
}

std::optional<int> parse_pid(const char *text)
{
    char *end = nullptr;
    const long value = strtol(text, &end, 10);
    return end == text || *end != '\0' || value < 1 || value > INT_MAX ? std::nullopt : std::optional<int>(value);
}

} // namespace softrdma::launcher

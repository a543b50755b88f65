// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_socket.hpp"
#include "launcher/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace softrdma::launcher
{

namespace
{

constexpr auto response_timeout = std::chrono::milliseconds(500);
constexpr std::size_t max_text_size = 65536;

enum class contact {
    responded,
    absent, // the process does not use the device
    unresponsive,
};

std::optional<int> parse_pid(const char *text)
{
    char *end = nullptr;
    const long value = strtol(text, &end, 10);
    return end == text || *end != '\0' || value < 1 || value > INT_MAX ? std::nullopt : std::optional<int>(value);
}

bool is_permitted(int pid)
{
    struct stat st = {};
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

// Control socket @softrdma/PID/NUMBER. Any process can create the name: its owner must have it open and respond.
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
    const local_address to("%s", name.c_str());
    return name.size() < sizeof(to.sun_path) && sendto(fd, request.data(), request.size(), 0, to.get(), to.size) >= 0;
}

bool receive_from(int fd, int pid, std::string &reply)
{
    reply.resize(max_text_size);
    iovec segment{reply.data(), reply.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> extra;
    msghdr message = message_of({&segment, 1}, extra);
    const ssize_t got = recvmsg(fd, &message, 0);
    reply.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    const auto sender = sender_of(message);
    return got > 0 && sender && sender->pid == pid;
}

contact send_request(int pid, const std::string &request, std::string &reply)
{
    const unique_fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un any{.sun_family = AF_UNIX, .sun_path = {}};
    if (fd.get() < 0 || !set_option(fd.get(), SOL_SOCKET, SO_PASSCRED, 1) ||
            bind(fd.get(), reinterpret_cast<const sockaddr *>(&any), sizeof(any.sun_family)) != 0)
        return contact::absent;
    contact found = contact::absent;
    for (const control_name &name : control_names()) {
        if (name.pid == pid && (send_to(fd.get(), name.text, request) || errno == EAGAIN))
            found = contact::unresponsive;
    }
    const auto deadline = std::chrono::steady_clock::now() + response_timeout;
    while (found == contact::unresponsive) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ready{fd.get(), POLLIN, 0};
        if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) != 1)
            break;
        if (receive_from(fd.get(), pid, reply))
            found = contact::responded;
    }
    return found;
}

// Returns the processes of this user, or of all for root, in this network namespace that may use the device.
std::vector<int> device_processes()
{
    std::vector<int> pids;
    for (const control_name &name : control_names())
        pids.push_back(name.pid);
    std::sort(pids.begin(), pids.end());
    pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
    return pids;
}

// Replaces unprintable characters by \xNN, so that a program cannot control the terminal.
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

std::string program_of(int pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return printable(name);
}

std::string value_of(const std::string &line, const std::string &key)
{
    const auto at = line.find(" " + key + "=");
    if (at == std::string::npos)
        return "-";
    const auto begin = at + key.size() + 2;
    return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

struct totals {
    unsigned pairs = 0;
    unsigned local = 0;
    unsigned long long posted = 0;
    unsigned long long executed = 0;
};

totals totals_of(const std::string &report)
{
    totals sum;
    std::istringstream lines(report);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("qp "))
            continue;
        ++sum.pairs;
        const std::string transport = value_of(line, "transport");
        sum.local += transport == "shm" || transport == "shm-fd";
        sum.posted += strtoull(value_of(line, "posted").c_str(), nullptr, 10);
        sum.executed += strtoull(value_of(line, "executed").c_str(), nullptr, 10);
    }
    return sum;
}

void print_row(int pid)
{
    std::string report;
    const std::string program = program_of(pid);
    const contact result = send_request(pid, "report", report);
    if (result == contact::unresponsive)
        printf("%7d  %-15s  no response (process stopped?)\n", pid, program.c_str());
    if (result != contact::responded) // absent: the process has exited
        return;
    report = printable(report);
    const totals sum = totals_of(report);
    printf("%7d  %-15s  %6u  %6u  %8s  %14s  %10llu  %10llu\n", pid, program.c_str(), sum.pairs, sum.local,
            value_of(report, "regions").c_str(), value_of(report, "bytes").c_str(), sum.posted, sum.executed);
}

int report_failure(int pid, contact result)
{
    fprintf(stderr,
            result == contact::unresponsive
                    ? "softrdma: process %d: no response (process stopped?)\n"
                    : "softrdma: process %d does not use softrdma, belongs to another user or is in another network "
                      "namespace (see softrdma ps)\n",
            pid);
    return exit_failure;
}

// Stores a printable reply. Returns 0, or an exit status after a message.
int request_reply(const char *process, const std::string &request, std::string &reply)
{
    const auto pid = parse_pid(process);
    if (!pid)
        return usage(std::string("'") + process + "' is not a process ID");
    const contact result = send_request(*pid, request, reply);
    reply = printable(reply);
    if (result != contact::responded)
        return report_failure(*pid, result);
    if (!reply.starts_with("error "))
        return 0;
    fprintf(stderr, "softrdma: process %d: %s", *pid, reply.c_str() + strlen("error "));
    return exit_failure;
}

int execute(const char *process, const std::string &request)
{
    std::string reply;
    return request_reply(process, request, reply);
}

} // namespace

int ps_command(int argc, char **argv)
{
    if (argc > 1)
        return usage("ps takes one process number at most");
    if (argc == 0) {
        printf("%7s  %-15s  %6s  %6s  %8s  %14s  %10s  %10s\n", "PID", "PROGRAM", "QPS", "LOCAL", "REGIONS", "BYTES",
                "POSTED", "EXECUTED");
        for (const int pid : device_processes())
            print_row(pid);
        return 0;
    }
    std::string report;
    const int failed = request_reply(argv[0], "report", report);
    if (failed == 0)
        fputs(report.c_str(), stdout);
    return failed;
}

int fault_command(int argc, char **argv)
{
    if (argc != 2)
        return usage("fault takes a process number and rules, or off");
    return execute(argv[0], std::string("fault ") + argv[1]);
}

int powercut_command(int argc, char **argv)
{
    return argc == 1 ? execute(argv[0], "powercut") : usage("powercut takes a process number");
}

} // namespace softrdma::launcher

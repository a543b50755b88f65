// SPDX-License-Identifier: BSD-3-Clause
#include "child.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "failure.hpp"

namespace bench
{

namespace
{

namespace fs = std::filesystem;

constexpr int grace_ms = 2000;

[[noreturn]] void become(std::vector<char *> &argv, pid_t parent, int keep)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(exit_failed);
    signal(SIGINT, SIG_IGN); // a terminal sends it to all; the parent decides
    if (keep >= 0)
        fcntl(keep, F_SETFD, 0);
    execvp(argv[0], argv.data());
    _exit(127);
}

} // namespace

child::child(const std::vector<std::string> &command, const std::string &library_directory, int keep)
{
    std::vector<std::string> words;
    if (!library_directory.empty()) {
        const char *const before = getenv("LD_LIBRARY_PATH");
        const bool more = before != nullptr && *before != '\0';
        words = {"env", "LD_LIBRARY_PATH=" + library_directory + (more ? std::string(":") + before : "")};
    }
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char *> argv;
    argv.reserve(words.size() + 1);
    for (std::string &word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);

    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0)
        throw system_failure("cannot start a process");
    if (pid_ == 0)
        become(argv, parent, keep);
}

child::child(child &&other) noexcept
    : pid_(std::exchange(other.pid_, -1)), reaped_(other.reaped_), status_(other.status_)
{
}

child::~child()
{
    if (pid_ < 0 || reaped_)
        return;
    kill(pid_, SIGTERM);
    for (int waited = 0; waited < grace_ms; waited += 10) {
        if (waitpid(pid_, &status_, WNOHANG) != 0)
            return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
}

// The end of a process's descriptors may be seen a moment before its own.
bool child::reap()
{
    for (int waited = 0; !reaped_ && waited < 500; waited += 10) {
        reaped_ = waitpid(pid_, &status_, WNOHANG) == pid_;
        if (!reaped_)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return reaped_;
}

std::optional<int> child::exit_status()
{
    if (!reap() || !WIFEXITED(status_))
        return std::nullopt;
    return WEXITSTATUS(status_);
}

std::string child::fate()
{
    if (!reap())
        return "still runs";
    if (WIFSIGNALED(status_))
        return std::string("was killed by ") + strsignal(WTERMSIG(status_));
    return "exited with status " + std::to_string(WEXITSTATUS(status_));
}

std::string own_path()
{
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        throw failure("cannot find this program: " + error.message());
    return self;
}

std::string softrdma_launcher()
{
    std::error_code error;
    const fs::path beside = fs::path(own_path()).parent_path() / "softrdma";
    if (access(beside.c_str(), X_OK) == 0)
        return beside;
    const char *const path = getenv("PATH");
    std::string left = path == nullptr ? "" : path;
    while (!left.empty()) {
        const std::size_t end = left.find(':');
        const fs::path candidate = fs::path(left.substr(0, end)) / "softrdma";
        if (access(candidate.c_str(), X_OK) == 0)
            return candidate;
        left = end == std::string::npos ? "" : left.substr(end + 1);
    }
    throw failure(
            "no active RDMA device, and no softrdma beside this program or in PATH: install softrdma", exit_cannot_run);
}

std::string why_no_local_path()
{
    std::string command = "'";
    for (const char c : softrdma_launcher())
        command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    const std::unique_ptr<FILE, int (*)(FILE *)> said(popen((command + "' info").c_str(), "re"), pclose);
    constexpr std::string_view label = "path local:";
    std::array<char, 512> line{};
    while (said != nullptr && fgets(line.data(), line.size(), said.get()) != nullptr) {
        std::string_view text(line.data());
        if (!text.starts_with(label))
            continue;
        text.remove_prefix(std::min(text.find_first_not_of(' ', label.size()), text.size()));
        return text.starts_with("not ") ? std::string(text.substr(0, text.find('\n'))) : "";
    }
    return "";
}

std::string find_library_directory(const std::string &path)
{
    constexpr const char *name = "librpma.so.0";
    std::error_code error;
    const fs::path given = fs::absolute(path, error);
    std::vector<fs::path> candidates = {
            given, given.parent_path(), given / "lib", given / "usr/lib", given / "usr/local/lib"};
    for (const char *const libraries : {"usr/lib", "lib"}) {
        for (const auto &entry : fs::directory_iterator(given / libraries, error))
            candidates.push_back(entry.path());
    }
    const bool is_file = fs::is_regular_file(given, error);
    for (const fs::path &candidate : candidates) {
        if ((candidate != given.parent_path() || is_file) && fs::exists(candidate / name, error))
            return candidate;
    }
    throw failure("no librpma.so.0 in " + path + ": name the library or a directory that has it", exit_usage);
}

std::string hardware_address()
{
    // RoCE devices keep their IPv4 addresses in the table of GIDs, mapped into IPv6.
    constexpr const char *mapped = "0000:0000:0000:0000:0000:ffff:";
    std::error_code error;
    for (const auto &device : fs::directory_iterator("/sys/class/infiniband", error)) {
        for (const auto &port : fs::directory_iterator(device.path() / "ports", error)) {
            std::ifstream state(port.path() / "state");
            std::string text;
            std::getline(state, text);
            if (text.find("ACTIVE") == std::string::npos)
                continue;
            for (const auto &gid : fs::directory_iterator(port.path() / "gids", error)) {
                std::ifstream file(gid.path());
                std::string value;
                unsigned high = 0, low = 0;
                if (std::getline(file, value) && value.starts_with(mapped) &&
                        std::sscanf(value.c_str() + std::strlen(mapped), "%4x:%4x", &high, &low) == 2)
                    return std::to_string(high >> 8) + "." + std::to_string(high & 255) + "." +
                           std::to_string(low >> 8) + "." + std::to_string(low & 255);
            }
        }
    }
    return {};
}

} // namespace bench

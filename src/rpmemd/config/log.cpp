// SPDX-License-Identifier: BSD-3-Clause
#include "config/log.hpp"

#include <array>
#include <atomic>
#include <ctime>
#include <fcntl.h>
#include <sstream>
#include <syslog.h>
#include <unistd.h>

#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

constexpr std::array<const char *, 5> names = {"err", "warn", "notice", "info", "debug"};
constexpr std::array<int, 5> priorities = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};

std::atomic<log_level> threshold = log_level::err;
std::atomic<bool> to_syslog = false;
std::atomic<int> log_fd = STDERR_FILENO;

std::string time_now()
{
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    std::array<char, 32> text{};
    localtime_r(&now, &parts);
    return {text.data(), std::strftime(text.data(), text.size(), "%F %T", &parts)};
}

void write_record(int fd, std::string record)
{
    record += '\n';
    // Uses one write, so that the records of several daemons in one file do not mix. An error cannot be reported.
    [[maybe_unused]] const ssize_t written = write(fd, record.data(), record.size());
}

} // namespace

std::optional<log_level> log_level_from(const std::string &word)
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (word == names[i])
            return static_cast<log_level>(i);
    return std::nullopt;
}

void log_threshold(log_level max_level)
{
    threshold = max_level;
}

void log_to_syslog()
{
    openlog("rpmemd", LOG_PID | LOG_NDELAY, LOG_USER);
    to_syslog = true;
}

void log_to_file(const std::string &path)
{
    const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        throw system_failure("cannot write to the log file " + path);
    to_syslog = false;
    log_fd = fd;
}

void log(log_level level, const std::string &text)
{
    if (level > threshold)
        return;
    const auto index = static_cast<std::size_t>(level);
    if (to_syslog) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            syslog(priorities[index], "%s", line.c_str());
        return;
    }
    const int fd = log_fd;
    if (fd == STDERR_FILENO)
        write_record(fd, "rpmemd: " + text);
    else
        write_record(fd, time_now() + " rpmemd[" + std::to_string(getpid()) + "] " + names[index] + ": " + text);
}

} // namespace rpmemd

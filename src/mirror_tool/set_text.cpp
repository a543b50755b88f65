// SPDX-License-Identifier: BSD-3-Clause
#include "set_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.hpp"
#include "write_all.hpp"

namespace mirror_tool
{

namespace
{

[[noreturn]] void fail(const std::string &set_file, const std::string &remedy)
{
    throw failure(fmt::format("copies changed, but cannot write {}: {} ({})", set_file, std::strerror(errno), remedy),
            exit_failed);
}

// Lock of a set file that other administrators may replace. Fails after 10 s, because its holder can be stopped.
class set_file_lock
{
public:
    set_file_lock() = default;
    ~set_file_lock() { close(fd_); }
    set_file_lock(const set_file_lock &) = delete;
    set_file_lock &operator=(const set_file_lock &) = delete;

    int lock(const std::string &path)
    {
        for (int attempt = 0; attempt < max_attempts; ++attempt) {
            close(fd_);
            fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
            const bool is_locked = fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0;
            if (!is_locked && errno != EWOULDBLOCK)
                return errno;
            struct stat locked {
            };
            struct stat present {
            };
            if (is_locked && fstat(fd_, &locked) == 0 && stat(path.c_str(), &present) == 0 &&
                    locked.st_dev == present.st_dev && locked.st_ino == present.st_ino)
                return 0;
            usleep(pause_us);
        }
        return EBUSY;
    }

private:
    static constexpr int max_attempts = 1000;
    static constexpr useconds_t pause_us = 10'000;

    int fd_ = -1;
};

// Replaces a file atomically: a concurrent reader gets the old or the new content.
bool replace(const std::string &path, const std::string &text)
{
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    std::string temporary = real + ".XXXXXX";
    struct stat before {
    };
    const int fd = stat(real.c_str(), &before) == 0 ? mkstemp(temporary.data()) : -1;
    if (fd < 0)
        return false;
    const bool replaced = write_all(fd, text) && fchown(fd, before.st_uid, before.st_gid) == 0 &&
                          fchmod(fd, before.st_mode & 07777) == 0 && fsync(fd) == 0 &&
                          rename(temporary.c_str(), real.c_str()) == 0;
    const int reason = errno;
    close(fd);
    if (!replaced)
        unlink(temporary.c_str());
    errno = reason;
    return replaced;
}

// Replaces the text of the set file by change(text), atomically and with the lock. Returns false with errno.
template<class F>
bool edit(const std::string &path, F change)
{
    set_file_lock holder;
    errno = holder.lock(path);
    std::ostringstream text;
    // The stream fails if it reads nothing, or not the whole file.
    if (errno != 0 || !(text << std::ifstream(path).rdbuf()))
        return false;
    const std::string next = change(text.str());
    return next == text.str() || replace(path, next);
}

} // namespace

void check_target_words(const std::string &location, const std::string &pool_set)
{
    for (const std::string &word : {location, pool_set})
        if (std::ranges::any_of(word, [](unsigned char c) { return c <= ' ' || c == '#'; }))
            throw failure(
                    fmt::format("'{}': a set file cannot contain it, because of a blank or # (use another name)", word),
                    exit_usage);
}

void add_target_line(
        const std::string &set_file, unsigned copy, const std::string &location, const std::string &pool_set)
{
    const std::string line = fmt::format("target {} {} {}", copy, location, pool_set);
    const auto add = [&](std::string text) {
        if (!text.empty() && text.back() != '\n')
            text += '\n';
        return text + line + '\n';
    };
    if (!edit(set_file, add))
        fail(set_file, "add the line '" + line + "'");
}

bool remove_target_line(const std::string &set_file, unsigned copy)
{
    bool found = false;
    const auto remove = [&](const std::string &text) {
        std::istringstream lines(text);
        std::string kept;
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string key;
            unsigned number = 0;
            if (!(words >> key >> number) || key != "target" || number != copy)
                kept += line + '\n';
            else
                found = true;
        }
        return found ? kept : text;
    };
    if (!edit(set_file, remove))
        fail(set_file, fmt::format("remove the line of target {}", copy));
    return found;
}

} // namespace mirror_tool

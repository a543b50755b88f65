// SPDX-License-Identifier: BSD-3-Clause
#include "log.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/short_text.hpp"
#include "settings.hpp"

namespace rpmem
{

namespace
{

constexpr const char *names[] = {"", "error", "warning", "info", "debug"};

// Opens the file for each line, because it may be rotated, and keeps no descriptor open.
void append(const char *path, const char *line, std::size_t size)
{
    const int fd = *path == '\0' ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // A write error of the log cannot be reported.
    [[maybe_unused]] const ssize_t written = write(fd, line, size);
    if (fd >= 0 && fd != STDERR_FILENO)
        close(fd);
}

[[gnu::format(printf, 2, 0)]] void write_line(log_level level, const char *pattern, std::va_list arguments)
{
    const int before = errno;
    replica::short_text<1023> message;
    message.format_list(pattern, arguments);
    replica::short_text<1151> line;
    line.format("librpmem[%d]: %s: %s\n", static_cast<int>(getpid()), names[static_cast<int>(level)], message.c_str());
    append(settings().log_file, line.c_str(), line.view().size());
    errno = before;
}

} // namespace

void log_line(log_level level, const char *pattern, ...)
{
    if (static_cast<int>(level) > settings().log_level)
        return;
    std::va_list arguments;
    va_start(arguments, pattern);
    write_line(level, pattern, arguments);
    va_end(arguments);
}

void log_by_default(const char *pattern, ...)
{
    if (settings().log_level >= 0)
        return;
    std::va_list arguments;
    va_start(arguments, pattern);
    write_line(log_level::error, pattern, arguments);
    va_end(arguments);
}

} // namespace rpmem

// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace softrdma::log
{

void write(level l, const char *format, ...)
{
    if (!is_on(l))
        return;
    constexpr const char *names[] = {"", "error", "warn", "info", "debug"};
    const int before = errno;
    std::array<char, 512> line;
    const auto space = line.size() - 1; // one byte is reserved for the newline
    const int head = snprintf(
            line.data(), space, "softrdma[%d] %s: ", static_cast<int>(getpid()), names[static_cast<std::size_t>(l)]);
    va_list arguments;
    va_start(arguments, format);
    const int body = vsnprintf(line.data() + head, space - static_cast<std::size_t>(head), format, arguments);
    va_end(arguments);
    const auto length = std::min(static_cast<std::size_t>(head + std::max(body, 0)), space - 1);
    // Lines contain names of peers, so unprintable characters are replaced.
    std::replace_if(
            line.begin(), line.begin() + static_cast<std::ptrdiff_t>(length), [](char c) { return c < ' ' || c > '~'; },
            '?');
    line[length] = '\n';
    // A single write(), so that lines of several threads and processes are not mixed.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), length + 1);
    errno = before;
}

} // namespace softrdma::log

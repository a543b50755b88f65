// SPDX-License-Identifier: BSD-3-Clause
#include "failure.hpp"

#include <cerrno>
#include <cstdarg>

#include "base/short_text.hpp"
#include "log.hpp"

namespace rpmem
{

namespace
{

constinit thread_local replica::short_text<511> text;

} // namespace

int fail(int error, const char *pattern, ...)
{
    std::va_list arguments;
    va_start(arguments, pattern);
    text.format_list(pattern, arguments);
    va_end(arguments);
    log_line(log_level::error, "%s", text.c_str());
    errno = error;
    return -1;
}

const char *last_failure()
{
    return text.c_str();
}

int fail_again(int error, const char *reason)
{
    if (text.view() != reason)
        return fail(error, "%s", reason);
    errno = error;
    return -1;
}

} // namespace rpmem

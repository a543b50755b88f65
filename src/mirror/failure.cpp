// SPDX-License-Identifier: BSD-3-Clause
#include "failure.hpp"

#include <cstdarg>
#include <cstring>

#include "base/short_text.hpp"

namespace mirror
{

namespace
{

constinit thread_local replica::short_text<511> text;

} // namespace

failure system_failure(const std::string &message, int error)
{
    return {RPMA_MIRROR_E_SYSTEM, message + ": " + std::strerror(error), error};
}

int fail(int code, const char *pattern, ...) noexcept
{
    std::va_list arguments;
    va_start(arguments, pattern);
    text.format_list(pattern, arguments);
    va_end(arguments);
    return code;
}

int fail(const failure &f) noexcept
{
    text.assign(f.what());
    if (f.system() != 0)
        errno = f.system();
    return f.code();
}

const char *last_failure() noexcept
{
    return text.c_str();
}

char *copy_for_caller(const std::string &original)
{
    char *const copy = strdup(original.c_str());
    if (copy == nullptr)
        throw std::bad_alloc();
    return copy;
}

} // namespace mirror

const char *rpma_mirror_error_message(void)
{
    return mirror::last_failure();
}

const char *rpma_mirror_err_2str(int error)
{
    constexpr const char *texts[] = {
            "invalid argument",
            "out of memory",
            "system call failed",
            "timeout",
            "another writer owns the set",
            "no response from the arbiter",
            "no target is in sync",
            "a target that was in sync does not respond",
            "the copy is not in sync",
            "connection to the target failed",
            "the target rejected the request",
            "the persistence level of a copy is too low",
            "data read back differs from the data written",
            "memory cannot be read or written back",
            "the set is in use",
            "the copy already exists",
            "copy, file or set not found",
            "canceled",
            "the program refused the eviction of a copy",
            "the local file was replaced, restored or resized",
            "the last writer may have written alone",
            "no copy that was in sync responds",
            "a target was lost during the opening",
            "no target confirmed the close",
            "a target in sync made no promise, so a writer can continue with it",
            "no consistency point was set in time",
    };
    if (error == 0)
        return "success";
    const int index = RPMA_MIRROR_E_INVAL - error;
    if (index < 0 || index >= static_cast<int>(sizeof(texts) / sizeof(texts[0])))
        return "unknown error";
    return texts[index];
}

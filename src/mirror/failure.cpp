// SPDX-License-Identifier: BSD-3-Clause
#include "failure.hpp"

#include <cstdarg>
#include <cstring>

#include "short_text.hpp"

namespace mirror
{

namespace
{

constinit thread_local replica::short_text<511> text;

} // namespace

failure system_failure(const std::string &what, int error)
{
    return {RPMA_MIRROR_E_SYSTEM, what + ": " + std::strerror(error), error};
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

} // namespace mirror

const char *rpma_mirror_error_message(void)
{
    return mirror::last_failure();
}

const char *rpma_mirror_err_2str(int error)
{
    constexpr const char *texts[] = {
            "an argument is invalid",
            "out of memory",
            "the system refused",
            "not done in time",
            "another writer has the set",
            "the arbiter does not answer",
            "no target is in sync any more",
            "a target that was in sync does not respond",
            "the copy is not in sync",
            "the target cannot be reached",
            "the target refused",
            "a copy does not have the level that is asked for",
            "what was read back is not what was written",
            "memory cannot be read or written back",
            "the set is in use",
            "there is a copy already",
            "there is no such copy, file or set",
            "paused",
            "the program stopped rather than lose a copy",
            "the local file was replaced, restored or resized",
            "the last writer may have written alone",
            "no copy that was in sync responds",
            "a target was lost during the opening",
            "no target confirmed the end",
            "a target in sync made no promise",
    };
    if (error == 0)
        return "success";
    const int index = RPMA_MIRROR_E_INVAL - error;
    if (index < 0 || index >= static_cast<int>(sizeof(texts) / sizeof(texts[0])))
        return "unknown error";
    return texts[index];
}

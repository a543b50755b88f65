// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

#include "abi.hpp"
#include "no_cancellation.hpp"

namespace mirror
{

// Error: an RPMA_MIRROR_E_* code, and one line with cause and remedy. Functions that are not noexcept may throw it.
class failure : public std::runtime_error
{
public:
    failure(int code, const std::string &line, int system = 0) : std::runtime_error(line), code_(code), system_(system)
    {
    }
    int code() const { return code_; }
    // Errno value, or 0.
    int system() const { return system_; }

private:
    int code_;
    int system_;
};

failure system_failure(const std::string &message, int error = errno);

// Stores the message for rpma_mirror_error_message() of this thread and returns the code. Does not allocate.
[[gnu::format(printf, 2, 3)]] int fail(int code, const char *pattern, ...) noexcept;
int fail(const failure &f) noexcept;
const char *last_failure() noexcept;
// Throws the failure of a call that has stored its message and returned the code, unless that is 0.
inline void throw_if_failed(int code)
{
    if (code != 0)
        throw failure(code, last_failure());
}

// Copies a text for a caller that releases it with free(3).
char *copy_for_caller(const std::string &text);

// Runs the body of a C function that is not on the data path, and converts exceptions to error codes.
template<class F>
int guarded(F &&f) noexcept
{
    const no_cancellation uncanceled;
    try {
        f();
        return 0;
    } catch (const failure &error) {
        return fail(error);
    } catch (const std::bad_alloc &) {
        return fail(RPMA_MIRROR_E_NOMEM, "out of memory");
    } catch (const std::exception &error) {
        return fail(RPMA_MIRROR_E_SYSTEM, "%s", error.what());
    }
}

} // namespace mirror

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

#include "abi.hpp"

namespace mirror
{

// What ends a call: an RPMA_MIRROR_E_* code, and one line that names cause and remedy. Thrown by everything but the
// data path, and caught at the C functions.
class failure : public std::runtime_error
{
public:
    failure(int code, const std::string &line, int system = 0) : std::runtime_error(line), code_(code), system_(system)
    {
    }
    int code() const { return code_; }
    // An errno, or 0.
    int system() const { return system_; }

private:
    int code_;
    int system_;
};

// E_SYSTEM, with what the errno means.
failure system_failure(const std::string &what, int error = errno);

// Keeps the text for rpma_mirror_error_message() of this thread, and returns the code. Needs no heap.
[[gnu::format(printf, 2, 3)]] int fail(int code, const char *pattern, ...) noexcept;
int fail(const failure &f) noexcept;
const char *last_failure() noexcept;

// What a C function does that is not on the data path.
template<class F>
int guarded(F &&f) noexcept
{
    try {
        f();
        return 0;
    } catch (const failure &problem) {
        return fail(problem);
    } catch (const std::bad_alloc &) {
        return fail(RPMA_MIRROR_E_NOMEM, "out of memory");
    } catch (const std::exception &problem) {
        return fail(RPMA_MIRROR_E_SYSTEM, "%s", problem.what());
    }
}

} // namespace mirror

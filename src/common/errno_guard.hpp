// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>

// Restores errno at the end of its scope, so that cleanup does not change the value that the caller sees.
class errno_guard
{
public:
    errno_guard() : saved_(errno) {}
    ~errno_guard() { errno = saved_; }
    errno_guard(const errno_guard &) = delete;
    errno_guard &operator=(const errno_guard &) = delete;

private:
    int saved_;
};

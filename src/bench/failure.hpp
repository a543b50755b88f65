// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace bench
{

enum exit_status {
    exit_done = 0,
    exit_failed = 1,
    exit_usage = 2,
    exit_cannot_run = 77
};

// Fatal error: one line with the cause and, if known, the remedy. Functions that are not noexcept may throw it.
class failure : public std::runtime_error
{
public:
    explicit failure(const std::string &line, exit_status status = exit_failed)
        : std::runtime_error(line), status_(status)
    {
    }
    exit_status status() const { return status_; }

private:
    exit_status status_;
};

inline failure system_failure(const std::string &message, int error = errno)
{
    return failure(message + ": " + std::strerror(error));
}

} // namespace bench

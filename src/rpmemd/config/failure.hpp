// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace rpmemd
{

// Error: an errno value for the client, and one line with cause and remedy. All functions except noexcept may throw it.
class failure : public std::runtime_error
{
public:
    failure(int error, const std::string &line) : std::runtime_error(line), error_(error) {}
    int os_errno() const { return error_; }

private:
    int error_;
};

inline failure system_failure(const std::string &message, int error = errno)
{
    return failure(error, message + ": " + std::strerror(error));
}

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

namespace mirror_tool
{

enum exit_status {
    exit_done = 0,
    exit_failed = 1,
    exit_usage = 2,
    exit_cannot_run = 77
};

// Error: exit status, and one line with cause and remedy. Functions that are not noexcept may throw it.
class failure : public std::runtime_error
{
public:
    failure(const std::string &line, exit_status status, int code = 0)
        : std::runtime_error(line), status_(status), code_(code)
    {
    }
    exit_status status() const { return status_; }
    // Returns the error code of librpma_mirror, or 0 if the failure is not from the library.
    int code() const { return code_; }

private:
    exit_status status_;
    int code_;
};

} // namespace mirror_tool

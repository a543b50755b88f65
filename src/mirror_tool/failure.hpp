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

// One line for the user, with cause and remedy, and how the program ends.
class failure : public std::runtime_error
{
public:
    failure(const std::string &line, exit_status status) : std::runtime_error(line), status_(status) {}
    exit_status status() const { return status_; }

private:
    exit_status status_;
};

} // namespace mirror_tool

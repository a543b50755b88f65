// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softrdma::launcher
{

enum class contact {
    answered,
    absent, // the process does not use the device
    unresponsive,
};

contact send_request(int pid, const std::string &request, std::string &reply);

// Processes of this user, or of all for root, in this network namespace that may use the device.
std::vector<int> device_processes();

std::optional<int> parse_pid(const char *text);

// Replaces unprintable characters by \xNN, so that a program cannot control the terminal.
std::string printable(const std::string &text);

} // namespace softrdma::launcher

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

// Sends a request to the device in the process; the wait for the response is short.
contact send_request(int pid, const std::string &request, std::string &reply);

// Processes of this user, or of all users for root, that may use the device; in this network namespace.
std::vector<int> device_processes();

std::optional<int> parse_pid(const char *text);

// Prints unprintable characters as \xNN, so that names and reports of a program cannot control the terminal.
std::string printable(const std::string &text);

} // namespace softrdma::launcher

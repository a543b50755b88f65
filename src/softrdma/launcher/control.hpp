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
    silent,
};

// Asks the device in the process; never waits for long.
contact ask(int pid, const std::string &request, std::string &reply);

// The processes of this user, of all users for root, in which the device may be found; in this network namespace.
std::vector<int> device_processes();

std::optional<int> parse_pid(const char *text);

// What a program says of itself, or is called, must not command the terminal: everything but ASCII and the ends of
// lines as \xNN.
std::string printable(const std::string &text);

} // namespace softrdma::launcher

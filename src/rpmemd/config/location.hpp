// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace rpmemd
{

struct location {
    std::string address; // numeric
    std::string port;
};

// Parses ADDRESS:PORT, with brackets around an IPv6 address. Throws std::invalid_argument.
location parse_location(const std::string &text);

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "fd_owner.hpp"

namespace rpmemd
{

struct location {
    std::string address; // numeric
    std::string port;
};

// Parses ADDRESS:PORT, with brackets around an IPv6 address. Throws std::invalid_argument.
location parse_location(const std::string &text);

// Listening TCP socket. Throws failure, which names the option.
class listener
{
public:
    listener(const char *option, const location &at, bool wildcard_allowed);

    int fd() const { return socket_.get(); }
    unsigned port() const;
    int release() { return socket_.release(); }

private:
    replica::fd_owner socket_;
};

} // namespace rpmemd

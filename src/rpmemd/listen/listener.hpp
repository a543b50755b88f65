// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/fd_owner.hpp"
#include "config/location.hpp"

namespace rpmemd
{

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

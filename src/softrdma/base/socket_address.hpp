// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <sys/socket.h>

namespace softrdma::net
{

// For people.
std::string text_of(const sockaddr_storage &address);

} // namespace softrdma::net

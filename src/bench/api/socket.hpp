// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "sides.hpp"

namespace bench
{

int listen_on(const address &at);
int connect_to(const address &to);
std::string free_port(const std::string &host);
std::string port_of(int fd);

} // namespace bench

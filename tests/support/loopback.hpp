// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <netinet/in.h>

// TCP on 127.0.0.1. Failures end the test.

sockaddr_in loopback_address(unsigned port);

// Returns a socket that is bound to a free port.
int bind_free_port(unsigned &port);

// Returns a port that is free at the moment.
unsigned free_port();

// Returns a socket, with additional SOCK_* flags, that is connected or connecting; -1 if the connection is refused.
int connect_to_port(unsigned port, int flags = 0);

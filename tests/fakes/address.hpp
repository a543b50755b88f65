// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/socket.h>

namespace fake
{

// Position of an address in its list.
unsigned address_index(const sockaddr *address);
bool is_wildcard(const sockaddr *address);

} // namespace fake

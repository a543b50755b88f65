// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <sys/socket.h>

namespace softrdma
{

// Readable form of an address, terminated by a zero byte.
using address_text = std::array<char, 80>;
address_text text_of(const sockaddr_storage &address) noexcept;

} // namespace softrdma

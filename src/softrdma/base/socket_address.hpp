// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <sys/socket.h>

namespace softrdma
{

using address_text = std::array<char, 80>; // readable form, terminated by a zero byte
address_text text_of(const sockaddr_storage &address) noexcept;

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#include "base/socket_address.hpp"

#include <cstdio>
#include <netdb.h>

namespace softrdma
{

address_text text_of(const sockaddr_storage &address) noexcept
{
    std::array<char, 64> host{"an unknown address"};
    std::array<char, 8> port{"0"};
    getnameinfo(reinterpret_cast<const sockaddr *>(&address), sizeof(address), host.data(), host.size(), port.data(),
            port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
    address_text text{};
    snprintf(text.data(), text.size(), "%s port %s", host.data(), port.data());
    return text;
}

} // namespace softrdma

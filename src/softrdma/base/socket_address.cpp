// SPDX-License-Identifier: BSD-3-Clause
#include "base/socket_address.hpp"

#include <array>
#include <netdb.h>

namespace softrdma::net
{

std::string text_of(const sockaddr_storage &address)
{
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), sizeof(address), host.data(), host.size(),
                port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "an unknown address";
    return std::string(host.data()) + " port " + port.data();
}

} // namespace softrdma::net

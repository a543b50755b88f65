// SPDX-License-Identifier: BSD-3-Clause
#include "config/location.hpp"

#include <stdexcept>

#include "base/text.hpp"

namespace rpmemd
{

location parse_location(const std::string &text)
{
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon + 1 == text.size())
        throw std::invalid_argument("'" + text + "': not of the form ADDRESS:PORT");
    if (!replica::is_port(std::string_view(text).substr(colon + 1), 0))
        throw std::invalid_argument("'" + text + "': invalid port (1 to 65535, or 0 for a free one)");
    std::string address = text.substr(0, colon);
    if (address.size() > 2 && address.front() == '[' && address.back() == ']')
        address = address.substr(1, address.size() - 2);
    return {address, text.substr(colon + 1)};
}

} // namespace rpmemd

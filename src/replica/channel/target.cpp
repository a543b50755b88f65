// SPDX-License-Identifier: BSD-3-Clause
#include "channel/target.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

#include "base/text.hpp"

namespace replica
{

namespace
{

constexpr auto npos = std::string_view::npos;

bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns whether a word of the ssh command line is safe: alphanumeric, in `also` or not ASCII, without a leading '-'.
bool is_word(std::string_view text, std::string_view also)
{
    return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [also](char c) {
        return is_alphanumeric(c) || also.find(c) != npos || (c & 0x80) != 0;
    });
}

bool is_address(std::string_view text)
{
    char bytes[64];
    const std::size_t size = std::min(text.find('%'), text.size());
    if (size >= sizeof(bytes))
        return false;
    std::memcpy(bytes, text.data(), size);
    bytes[size] = '\0';
    in6_addr address;
    return inet_pton(AF_INET6, bytes, &address) == 1;
}

const char *parse_service(std::string_view text, target &to)
{
    if (!is_port(text) || !to.service.assign(text))
        return "the port is not a number from 1 to 65535";
    return nullptr;
}

const char *parse_node(std::string_view text, bool address, target &to)
{
    if (text.empty())
        return "the host is missing";
    if (!is_word(text, address ? ".:%_-" : "._-"))
        return "the host contains an invalid character";
    return to.node.assign(text) ? nullptr : "the host is longer than 255 characters";
}

// Parses `[address]` or `[address]:port`.
const char *parse_bracketed(std::string_view text, target &to)
{
    const auto end = text.find(']');
    if (end == npos)
        return "the bracket before the address is not closed";
    if (const char *const fault = parse_node(text_after(text_before(text, end), 1), true, to))
        return fault;
    const auto rest = text_after(text, end + 1);
    if (rest.empty())
        return nullptr;
    return rest.front() == ':' ? parse_service(text_after(rest, 1), to)
                               : "invalid text after the address (expected ':' and a port)";
}

} // namespace

const char *parse_target(std::string_view text, target &to)
{
    to = {};
    if (text == "local:") {
        to.local = true;
        return nullptr;
    }
    // Splits at the last '@', like ssh: the user may be `user@domain`.
    if (const auto at = text.rfind('@'); at != npos) {
        if (!is_word(text_before(text, at), "._-+$@") || text.front() == '@' || text_before(text, at).back() == '@')
            return "the user name before '@' is empty or contains an invalid character";
        if (!to.user.assign(text_before(text, at)))
            return "the user name is longer than 255 characters";
        text.remove_prefix(at + 1);
    }
    if (!text.empty() && text.front() == '[')
        return parse_bracketed(text, to);
    const auto colon = text.find(':');
    if (colon == npos)
        return parse_node(text, false, to);
    // Two colons without brackets are part of an IPv6 address.
    if (text.find(':', colon + 1) != npos) {
        if (!is_address(text))
            return "more than one colon in an invalid IPv6 address";
        return parse_node(text, true, to);
    }
    if (const char *const fault = parse_node(text_before(text, colon), false, to))
        return fault;
    return parse_service(text_after(text, colon + 1), to);
}

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#include "channel/key_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <gnutls/gnutls.h>
#include <stdexcept>

namespace replica
{

namespace
{

constexpr std::size_t min_key_size = 16;
constexpr std::size_t max_key_size = 64;
constexpr std::size_t max_name_len = 128;

// Rejects '#', which marks a name in hexadecimal digits. No other program uses such names.
bool is_name(const std::string &name)
{
    return !name.empty() && name.size() <= max_name_len && name[0] != '#' &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

std::string key_from(const std::string &digits)
{
    std::size_t size = digits.size() / 2;
    if (digits.size() % 2 != 0 || size < min_key_size || size > max_key_size)
        return {};
    std::string key(size, '\0');
    const gnutls_datum_t hex{
            reinterpret_cast<unsigned char *>(const_cast<char *>(digits.data())), static_cast<unsigned>(digits.size())};
    return gnutls_hex_decode(&hex, key.data(), &size) == 0 ? key : std::string();
}

} // namespace

tls_keys parse_keys(const std::string &text)
{
    tls_keys keys;
    std::size_t number = 0;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
        ++number;
        end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        if (line.empty())
            continue;
        const std::size_t colon = line.find(':');
        const std::string name = line.substr(0, colon),
                          key = key_from(line.substr(std::min(colon, line.size() - 1) + 1));
        const std::string where = "line " + std::to_string(number) + ": ";
        // The message must not contain the line, which can be a key.
        if (colon == std::string::npos || !is_name(name) || key.empty())
            throw std::invalid_argument(
                    where + "not of the form NAME:KEY with 32 to 128 hexadecimal digits (see psktool)");
        if (!keys.emplace(name, key).second)
            throw std::invalid_argument(where + "second key of '" + name + "'");
    }
    if (keys.empty())
        throw std::invalid_argument("does not contain a key");
    return keys;
}

tls_keys read_key_file(const std::string &path)
{
    const std::string name = "key file " + path + ": ";
    try {
        std::string text = read_text_file(path, readable_by::owner);
        tls_keys keys = parse_keys(text);
        explicit_bzero(text.data(), text.size());
        return keys;
    } catch (const file_error &error) {
        throw file_error(error.os_errno(), name + error.what());
    } catch (const std::invalid_argument &error) {
        throw file_error(EBADMSG, name + error.what());
    }
}

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace replica
{

// Like substr(), but without dependencies on the C++ runtime. `at` must not exceed the size.
inline std::string_view text_before(std::string_view text, std::size_t at)
{
    return {text.data(), at};
}
inline std::string_view text_after(std::string_view text, std::size_t at)
{
    return {text.data() + at, text.size() - at};
}

// Returns whether the text is a decimal number from min to 65535. getaddrinfo(3) reduces larger ones modulo 65536.
inline bool is_port(std::string_view text, unsigned min = 1)
{
    unsigned value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9' || value > 65535)
            return false;
        value = value * 10 + static_cast<unsigned>(c - '0');
    }
    return !text.empty() && value >= min && value <= 65535;
}

// Returns the error if the first bytes of a configuration file are not plain UTF-8 text, otherwise NULL.
inline const char *encoding_fault(std::string_view start)
{
    if (start.starts_with("\xef\xbb\xbf"))
        return "starts with a byte order mark (save it as UTF-8 without one)";
    if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff"))
        return "is UTF-16 (save it as UTF-8)";
    return nullptr;
}

} // namespace replica

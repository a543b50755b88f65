// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>

// Settings from the environment. Treats a value that is not a number in range as unset.
namespace environment
{

inline int number(const char *name, int fallback, int min, int max)
{
    const char *text = getenv(name);
    if (text == nullptr || *text == '\0')
        return fallback;
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return errno != 0 || *end != '\0' || value < min || value > max ? fallback : static_cast<int>(value);
}

inline bool is(const char *name, const char *value)
{
    const char *text = getenv(name);
    return text != nullptr && strcmp(text, value) == 0;
}

} // namespace environment

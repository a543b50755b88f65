// SPDX-License-Identifier: BSD-3-Clause
#include "net/settings.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace softrdma::net
{

namespace
{

int number(const char *name, int fallback, int lowest, int highest)
{
    const char *text = getenv(name);
    if (text == nullptr || *text == '\0')
        return fallback;
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return errno != 0 || *end != '\0' || value < lowest || value > highest ? fallback : static_cast<int>(value);
}

bool is(const char *name, const char *value)
{
    const char *text = getenv(name);
    return text != nullptr && strcmp(text, value) == 0;
}

} // namespace

const settings_values &settings()
{
    constexpr int day_ms = 24 * 60 * 60 * 1000;
    static const settings_values values{
            .port_offset = number("SOFTRDMA_PORT_OFFSET", 0, -65535, 65535),
            .response_timeout = std::chrono::milliseconds(number("SOFTRDMA_CM_TIMEOUT_MS", 20000, 1, day_ms)),
            .timewait = std::chrono::milliseconds(number("SOFTRDMA_TIMEWAIT_MS", 100, 0, day_ms)),
            .exact_private_data = is("SOFTRDMA_PRIVATE_DATA", "exact"),
    };
    return values;
}

} // namespace softrdma::net

// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include "environment.hpp"

namespace softrdma::net
{

const settings_values &settings()
{
    using environment::is;
    using environment::number;
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

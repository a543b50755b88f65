// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

#include <chrono>

namespace softrdma
{

struct settings_values {
    int port_offset;                            // SOFTRDMA_PORT_OFFSET
    std::chrono::milliseconds response_timeout; // SOFTRDMA_CM_TIMEOUT_MS
    std::chrono::milliseconds timewait;         // SOFTRDMA_TIMEWAIT_MS
    bool exact_private_data;                    // SOFTRDMA_PRIVATE_DATA=exact
    bool loopback_is_wildcard;                  // SOFTRDMA_LOOPBACK=wildcard
};

inline settings_values settings()
{
    using config::setting;
    return {.port_offset = config::value(setting::port_offset),
            .response_timeout = std::chrono::milliseconds(config::value(setting::cm_timeout_ms)),
            .timewait = std::chrono::milliseconds(config::value(setting::timewait_ms)),
            .exact_private_data = config::is(setting::private_data, config::private_data_word::exact),
            .loopback_is_wildcard = config::is(setting::loopback, config::loopback_word::wildcard)};
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

const settings_values &settings();

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

// Log of the device (SOFTRDMA_LOG, off by default): one line on standard error, where an event is first detected.
namespace softrdma::log
{

using level = config::log_word;

inline bool is_on(level l)
{
    return config::value(config::setting::log) >= static_cast<int>(l);
}

[[gnu::format(printf, 2, 3)]] void write(level l, const char *format, ...); // no newline at its end

} // namespace softrdma::log

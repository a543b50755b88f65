// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

// What the device has to say about its work (SOFTRDMA_LOG): one line on standard error where something is first
// detected. Nothing is said unless the setting asks for it.
namespace softrdma::log
{

using level = config::log_word;

inline bool is_on(level l)
{
    return config::value(config::setting::log) >= static_cast<int>(l);
}

// As printf() formats it, without an end of line.
[[gnu::format(printf, 2, 3)]] void write(level l, const char *format, ...);

} // namespace softrdma::log

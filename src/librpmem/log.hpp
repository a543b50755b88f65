// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmem
{

enum class log_level {
    error = 1,
    warning = 2,
    info = 3,
    debug = 4,
};

// Logs an error only if RPMEM_LOG_LEVEL is not set.
[[gnu::format(printf, 1, 2)]] void log_by_default(const char *pattern, ...);

// Writes a line to RPMEM_LOG_FILE, or to standard error, if RPMEM_LOG_LEVEL includes the level.
[[gnu::format(printf, 2, 3)]] void log_line(log_level level, const char *pattern, ...);

} // namespace rpmem

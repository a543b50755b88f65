// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

// Log of the daemon: standard error until the configuration is read, then syslog or a file.
namespace rpmemd
{

enum class log_level {
    err,
    warn,
    notice,
    info,
    debug
};

std::optional<log_level> log_level_from(const std::string &word);

void log_threshold(log_level max_level);
void log_to_syslog();
void log_to_file(const std::string &path); // throws failure

// Logs the lines of a text as one record; in a file, the first begins with time, process and level. Thread-safe.
void log(log_level level, const std::string &text);

} // namespace rpmemd

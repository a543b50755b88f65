// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

// The log of the daemon: to standard error until the configuration is read, then to syslog or a file.
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

void log_threshold(log_level highest);
void log_to_syslog();
void log_to_file(const std::string &path); // throws failure

// A text of several lines is one record. Of a record in a file the first line has the time, the process and the level
// in front; the others stand as they are. Safe in any thread.
void log(log_level level, const std::string &text);

} // namespace rpmemd

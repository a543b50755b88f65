// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rpmemd
{

// Splits a command line like a POSIX shell. Throws std::invalid_argument for an unterminated quote and for unquoted
// shell syntax such as `;`, `$` and `*`, because no shell runs the command.
std::vector<std::string> words_of_command(std::string_view line);

// Returns the arguments in SSH_ORIGINAL_COMMAND, without the name of the command. A forced command of ssh runs the
// daemon in place of the client's command. Throws config_error unless all arguments are among those that a client may
// use: --remove SET, --force, --pool-set, --check SET and --version.
std::vector<std::string> forced_arguments();

} // namespace rpmemd

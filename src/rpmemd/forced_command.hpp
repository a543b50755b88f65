// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rpmemd
{

// The words of a command line as a POSIX shell reads them: blanks separate, quotes and backslashes protect. Throws
// std::invalid_argument, which says what is wrong, for a quote that is not closed and for what a shell would do more
// with than pass it on, such as `;`, `$` and `*`: there is no shell.
std::vector<std::string> words_of_command(std::string_view line);

// With a forced command of ssh the daemon runs instead of what the client asked for, which SSH_ORIGINAL_COMMAND has.
// These are the arguments in it, without the name of the command. Throws config_error unless all of them are among
// those that a client may use: --remove SET, --force, --pool-set, --check SET and --version.
std::vector<std::string> forced_arguments();

} // namespace rpmemd

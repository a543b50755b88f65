// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

// Set files beneath the poolset directory. All functions throw failure.
namespace rpmemd
{

// EBADF for a name that is not a relative path without "..", control characters and more than 255 bytes.
void check_set_name(const std::string &name);

// The text. Symbolic links do not lead out of the directory.
std::string read_set_file(const std::string &directory, const std::string &name);

void remove_set_file(const std::string &directory, const std::string &name);

} // namespace rpmemd

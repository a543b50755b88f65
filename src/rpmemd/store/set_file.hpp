// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "store/poolset.hpp"

namespace rpmemd
{

// Throws EBADF unless the name is a relative path of at most 255 bytes without ".." and control characters.
void check_set_name(const std::string &name);

// Returns the text of the file. Symbolic links must not lead out of the directory.
std::string read_set_file(const std::string &directory, const std::string &name);

poolset read_poolset(const std::string &directory, const std::string &name);

void remove_set_file(const std::string &directory, const std::string &name);

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

// Whole files. Errors are a std::runtime_error whose text is one line naming the file and the cause.
namespace bench
{

std::string read_file(const std::string &path);
// Replaces the file at once or not at all, and is on the disk when it returns.
void replace_file(const std::string &path, const std::string &text);

} // namespace bench

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace mirror_tool
{

// Throws failure if a target line cannot contain the words.
void check_target_words(const std::string &location, const std::string &pool_set);

// Change the target lines of a set file, which is replaced atomically.
void add_target_line(
        const std::string &set_file, unsigned copy, const std::string &location, const std::string &pool_set);
bool remove_target_line(const std::string &set_file, unsigned copy);

} // namespace mirror_tool

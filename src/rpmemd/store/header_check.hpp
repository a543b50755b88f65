// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "store/part.hpp"
#include "store/pool_header.hpp"

namespace rpmemd
{

// Checks that the headers of a pool are intact and belong together. Throws failure: EIO for a wrong checksum, otherwise
// EINVAL. `pages` may have fewer elements than `parts`.
void check_headers(const std::vector<header_page> &pages, bool single_header, const std::vector<part> &parts);

} // namespace rpmemd

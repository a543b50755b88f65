// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "part.hpp"
#include "pool_header.hpp"

namespace rpmemd
{

// Whether the headers of a pool are whole and belong together. Throws failure: EIO for a wrong checksum, otherwise
// EINVAL. There may be fewer headers than parts.
void check_headers(const std::vector<header_page> &pages, bool single_header, const std::vector<part> &parts);

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "figure.hpp"

namespace bench::report
{

// A figure's chart as an SVG element. Colours and fonts come from the style sheet. The id is unique in the document.
std::string draw(const figure &f, const std::string &id);

// A line's mark by itself, for a legend.
std::string draw_key(const series &line);

} // namespace bench::report

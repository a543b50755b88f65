// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "base/short_text.hpp"

namespace replica
{

// Location of a replica: `[user@]host[:port]` with the port of ssh, or `local:`. The user may be `user@domain`.
struct target {
    bool local = false;
    short_text<255> user;
    short_text<255> node;
    short_text<31> service;
};

// Parses a target. Returns NULL on success, otherwise the error.
const char *parse_target(std::string_view text, target &to);

} // namespace replica

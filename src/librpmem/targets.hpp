// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "channel/target.hpp"
#include "message/control.hpp"

namespace rpmem
{

std::string replica_name(std::string_view target, const char *set_name);

// Targets of a pool: one, or several separated by commas.
struct target_list {
    static constexpr std::size_t max_targets = replica::max_copies - 1;

    int parse(const char *text);

    std::size_t count = 0;
    std::string_view texts[max_targets]; // point into the parsed text
    replica::target targets[max_targets];
};

} // namespace rpmem

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string_view>

#include "control.hpp"
#include "target.hpp"

namespace rpmem
{

// How people, and the state file, call a replica.
using replica_name_text = replica::short_text<320>;
replica_name_text replica_name(std::string_view target, const char *set_name);

// The targets of a pool: one, or several with commas between them.
struct target_list {
    static constexpr std::size_t most = replica::most_copies - 1;

    // 0, or -1 with the failure reported.
    int parse(const char *text);

    std::size_t count = 0;
    std::string_view texts[most]; // into what was parsed
    replica::target targets[most];
};

} // namespace rpmem

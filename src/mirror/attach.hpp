// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "parts.hpp"

namespace mirror
{

struct connected {
    std::unique_ptr<replica::region> region;
    rpma_mirror_level level;
};

std::uint32_t devices_of(rpma_mirror_device device);

std::unique_ptr<replica::region> connect_lanes(const target_settings &to, const replica::wire::region &target,
        const replica::region::settings &params, const replica::deadline &until);

// Connects the writer's lanes to a target whose copy has `copy_length` bytes, and gives the copy the set's length.
connected attach(const set_parts &of, remote_copy &c, channel &control, std::uint64_t copy_length,
        const replica::deadline &until);

// Sets the length of the copy on a target, or only reserves it. Returns the state of the copy.
replica::mirror_state resize(const membership &of, const remote_copy &c, channel &control, std::uint64_t length,
        bool reserve, const replica::deadline &until);

// Creates the copy on a target. A copy that an earlier request created is accepted with any length.
void create_copy(const membership &of, const remote_copy &c, channel &control, std::uint64_t length,
        const replica::deadline &until);

} // namespace mirror

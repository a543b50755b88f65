// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "group/step.hpp"
#include "remote_copy.hpp"

namespace mirror
{

using group::quiet_thread;

// Calls f for copies, given as bits, concurrently, and stores their newest record. A copy has responded if f returns;
// an exception is stored in the copy. After is_complete() returned true, the others get a tenth of the remaining time.
void query_copies(const remote_copies &copies, std::uint32_t bits, const replica::deadline &until,
        replica::mirror_record &newest, const std::function<void(remote_copy &, const replica::deadline &)> &f,
        const std::function<bool(std::uint32_t responded)> &is_complete);

// Returns the set of the targets, given as bits. Throws failure if they have copies of different sets.
replica::set_uuid common_set(const remote_copies &copies, std::uint32_t bits);

} // namespace mirror

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace softrdma
{

// Whether a queue pair of that type (reliable connection or unreliable datagram) may go from one state to the other
// with these attributes, by the InfiniBand specification's table (11.2.5.2) as the kernel applies it: what is required
// has to be there, and nothing that is neither required nor optional.
bool may_change(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) noexcept;

// Whether the values of these attributes are in their ranges.
bool in_range(const ibv_qp_attr &attr, int mask) noexcept;

} // namespace softrdma

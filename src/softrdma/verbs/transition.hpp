// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace softrdma
{

// Whether each attribute that the mask names has a value of its enumeration. To be asked before any is used.
bool are_known(const ibv_qp_attr &attr, int mask) noexcept;
// Likewise of a queue pair that is to be created; not every such type is supported.
bool is_type(const ibv_qp_type &type) noexcept;

// Whether a queue pair of that type (reliable connection or unreliable datagram) may take these attributes: 0 or
// EINVAL. The table is that of the InfiniBand specification (11.2.5.2) as the kernel applies it: what is required has
// to be there, and nothing that is neither required nor optional.
int check_change(ibv_qp_type type, const ibv_qp_attr &own, const ibv_qp_attr &asked, int mask) noexcept;

// Takes what the mask names, but for the state.
void take_attributes(ibv_qp_attr &own, const ibv_qp_attr &asked, int mask) noexcept;

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace softrdma
{

// Returns whether each attribute in the mask has a value of its enumeration. Called before any attribute is used.
bool are_known(const ibv_qp_attr &attr, int mask) noexcept;
// Returns whether the type of a new queue pair is a value of its enumeration; not every type is supported.
bool is_type(const ibv_qp_type &type) noexcept;

// Returns EINVAL unless the table of the InfiniBand specification (11.2.5.2) permits these attributes to a queue pair
// of that type (RC or UD): all required and no other than optional ones.
int check_change(ibv_qp_type type, const ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept;

void take_attributes(ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept; // except the state

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace softrdma
{

// Returns whether each attribute in the mask has a value of its enumeration. Called before any attribute is used.
bool are_known(const ibv_qp_attr &attr, int mask) noexcept;
// Returns whether the type of a new queue pair is a value of its enumeration; not every type is supported.
bool is_type(const ibv_qp_type &type) noexcept;

// Returns EINVAL unless a queue pair of that type (RC or UD) may take these attributes by the table of the InfiniBand
// specification (11.2.5.2), as in the kernel: all required and no other than optional ones.
int check_change(ibv_qp_type type, const ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept;

// Copies the attributes in the mask, except the state.
void take_attributes(ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept;

} // namespace softrdma

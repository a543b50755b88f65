// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <span>

namespace softrdma
{

// Faults the pages of the ranges in if the flags request it, otherwise reads them ahead. Returns 0, EOPNOTSUPP, EINVAL,
// or EFAULT for a range that has no memory, or no region of the domain with the access that the advice needs.
int advise_regions(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, std::span<const ibv_sge> ranges);

} // namespace softrdma

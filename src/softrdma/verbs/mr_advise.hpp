// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <span>

namespace softrdma
{

// Prefetches the ranges: faults their pages in if the flags request it, otherwise reads them ahead. Returns 0 or an
// errno value. EOPNOTSUPP: unknown advice. EINVAL: unknown flags or empty list. EFAULT: a range is not in a region of
// the domain, lacks the write access that the advice needs, or has no memory.
int advise_regions(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, std::span<const ibv_sge> ranges);

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <span>

namespace softrdma
{

// Prefetches the ranges: their pages are faulted in now if the flags ask for it, and read ahead otherwise. 0 or an
// errno value: EOPNOTSUPP for an unknown advice, EINVAL for unknown flags or no range at all, EFAULT for a range that
// is not inside a region of the domain with the right to be written, where the advice is about writing, or has no
// memory.
int advise_regions(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, std::span<const ibv_sge> ranges);

} // namespace softrdma

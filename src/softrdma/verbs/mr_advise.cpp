// SPDX-License-Identifier: BSD-3-Clause
#include "base/proc_maps.hpp"
#include "verbs/mr.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace softrdma
{

constexpr int populate_read = 22; // added in Linux 5.14; older headers lack both
constexpr int populate_write = 23;

static int prefetch(const std::byte *begin, std::size_t length, int kernel_advice) noexcept
{
    const auto first = reinterpret_cast<std::uintptr_t>(begin) / page_size() * page_size();
    const auto end = reinterpret_cast<std::uintptr_t>(begin) + length;
    int result = 0;
    do
        result = madvise(reinterpret_cast<void *>(first), end - first, kernel_advice);
    while (result != 0 && errno == EINTR);
    const bool no_memory = result != 0 && (errno == EFAULT || errno == ENOMEM || errno == EHWPOISON);
    return no_memory && kernel_advice != MADV_WILLNEED ? EFAULT : 0; // the kernel may ignore advice
}

int advise_regions(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, std::span<const ibv_sge> ranges)
{
    const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const bool faults = advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
    if (!writes && faults && advice != IBV_ADVISE_MR_ADVICE_PREFETCH)
        return EOPNOTSUPP;
    if ((flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || ranges.empty())
        return EINVAL;
    const bool now = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
    const int kernel_advice = !now ? MADV_WILLNEED : writes ? populate_write : populate_read;
    const int access = writes ? IBV_ACCESS_LOCAL_WRITE : 0;
    const auto pin = [&](const ibv_sge &range) {
        return region_table::instance().pin(
                range.lkey, domain_of(pd), access | access_local_read, range.addr, range.length);
    };
    for (const ibv_sge &range : ranges) { // all are checked before the first takes effect
        if (!pin(range))
            return EFAULT;
    }
    for (const ibv_sge &range : ranges) {
        const region_pin pinned = pin(range);
        const int error = !pinned                      ? EFAULT
                          : faults && range.length > 0 ? prefetch(pinned->at(range.addr), range.length, kernel_advice)
                                                       : 0;
        if (error != 0)
            return error;
    }
    return 0;
}

} // namespace softrdma

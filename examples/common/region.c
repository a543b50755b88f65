// SPDX-License-Identifier: BSD-3-Clause
#include "region.h"

#include "explain.h"
#include "status.h"

int register_range(struct rpma_peer *peer, void *base, size_t size, int usage, struct rpma_mr_local **mr)
{
    return explain_mr_reg(size, rpma_mr_reg(peer, base, size, usage, mr));
}

int register_memory(struct rpma_peer *peer, const struct memory *memory, int usage, struct rpma_mr_local **mr)
{
    const int status = register_range(peer, memory->base, memory->size, usage, mr);
    if (status != STATUS_OK)
        return status;

    /* Avoids page faults on memory that is not pinned. Other devices reject the advice, which is harmless. */
    if (memory->map && (usage & (RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_DST)))
        (void)rpma_mr_advise(*mr, 0, memory->size, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH);
    return STATUS_OK;
}

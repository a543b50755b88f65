// SPDX-License-Identifier: BSD-3-Clause
#include "workspace_block.h"

#include <string.h>

bool workspace_block_read(const void *data, size_t size, struct workspace_block *block)
{
    struct workspace_block found;
    if (!data || size < sizeof(found))
        return false;
    memcpy(&found, data, sizeof(found));
    if (found.descriptor_size == 0 || found.descriptor_size > MAX_DESCRIPTOR_SIZE || found.direct_write_to_pmem > 1)
        return false;
    *block = found;
    return true;
}

// SPDX-License-Identifier: BSD-3-Clause
/* Preloaded library: the device supports native flush, but rejects memory as persistent memory, like SoftRoCE with
 * files. */
#include <librpma.h>

int rpma_mr_get_native_flush_type(const struct rpma_mr_local *mr, int *flush_type)
{
    *flush_type = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    return 0;
}

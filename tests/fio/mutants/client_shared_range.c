// SPDX-License-Identifier: BSD-3-Clause
/*
 * mode=sw, wrong: the requests for all appends in flight contain the same range, and therefore the same pointer: that
 * of the append that was posted last. Each request still contains the number of its own append.
 */
#include "client.h"
#include "message.h"

enum {
    RANGE_SIZE = 2 * (1 + sizeof(uint64_t)) /* the first two fields of the request */
};

static int send_shared(
        struct rpma_conn *conn, struct rpma_mr_local *mr, size_t slot, size_t size, int flags, const void *context)
{
    void *slots = NULL;
    size_t end = 0;
    if (rpma_mr_get_ptr(mr, &slots) != 0 || rpma_mr_get_size(mr, &end) != 0)
        return RPMA_E_PROVIDER;
    for (size_t other = 0; other < end; other += SLOT_SIZE)
        memmove((char *)slots + other, (const char *)slots + slot, RANGE_SIZE);
    return rpma_send(conn, mr, slot, size, flags, context);
}

#define rpma_send send_shared
#include "requests.c"

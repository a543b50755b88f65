// SPDX-License-Identifier: BSD-3-Clause
/*
 * mode=sw, wrong: the requests for all appends in flight, and so their pointers, are sent from one buffer, which is
 * read when the send is executed and not when it is posted.
 */
#include "client.h"

static int send_shared(
        struct rpma_conn *conn, struct rpma_mr_local *mr, size_t slot, size_t size, int flags, const void *context)
{
    void *slots = NULL;
    if (rpma_mr_get_ptr(mr, &slots) != 0)
        return RPMA_E_PROVIDER;
    memmove(slots, (const char *)slots + slot, size);
    return rpma_send(conn, mr, 0, size, flags, context);
}

#define rpma_send send_shared
#include "requests.c"

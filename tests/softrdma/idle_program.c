/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects a pair, writes now and then until a request fails, and says so: something for the softrdma command to act
 * on. */
#include "fixture.h"

#include <stdio.h>
#include <unistd.h>

int main(void)
{
    struct pair p;
    open_pair(&p, NULL);
    puts("ready");
    fflush(stdout);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    for (unsigned i = 0; i < 3000 && status == IBV_WC_SUCCESS; ++i) {
        if (post(&p.client, IBV_WR_RDMA_WRITE, i, 0, 8, &p.server, 0, 0) != 0)
            return 1;
        status = next_completion(p.client.cq).status;
        usleep(10000);
    }
    puts(ibv_wc_status_str(status));
    return 0;
}

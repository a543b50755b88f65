/* SPDX-License-Identifier: BSD-3-Clause */
/* A program on libpmemobj: increments a counter in a pool N times, each time in a transaction, and prints it. */
#include <libpmemobj.h>

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/output.h"

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        errx(2, "usage: counter POOLSET N");
    PMEMobjpool *pool = pmemobj_open(argv[1], "counter");
    if (pool == NULL && errno == ENOENT)
        pool = pmemobj_create(argv[1], "counter", 0, 0600);
    if (pool == NULL)
        errx(1, "pmemobj_open or pmemobj_create: %s", pmemobj_errormsg());
    const PMEMoid root = pmemobj_root(pool, sizeof(uint64_t));
    uint64_t *counter = pmemobj_direct(root);
    for (long left = strtol(argv[2], NULL, 10); left > 0; --left) {
        TX_BEGIN(pool)
        {
            pmemobj_tx_add_range(root, 0, sizeof(*counter));
            ++*counter;
        }
        TX_ONABORT
        {
            errx(1, "a transaction was aborted: %s", pmemobj_errormsg());
        }
        TX_END
    }
    printf("%" PRIu64 "\n", *counter);
    pmemobj_close(pool);
    return 0;
}

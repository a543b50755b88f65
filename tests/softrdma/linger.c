/* SPDX-License-Identifier: BSD-3-Clause */
/* A preloaded library that destroys queue pairs a second later. A program that ends without waiting for the peer, as
 * ibv_rc_pingpong, otherwise fails the last SEND of the peer if the acknowledgment is lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <unistd.h>

int ibv_destroy_qp(struct ibv_qp *qp)
{
    static int (*next)(struct ibv_qp *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "ibv_destroy_qp");
    sleep(1);
    return next(qp);
}

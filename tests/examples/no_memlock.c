// SPDX-License-Identifier: BSD-3-Clause
/* Preload that simulates a device with a low `ulimit -l`: no memory can be locked. softrdma itself locks none. */
#include <errno.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    errno = ENOMEM;
    return NULL;
}

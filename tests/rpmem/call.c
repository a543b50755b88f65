/* SPDX-License-Identifier: BSD-3-Clause */
/* usage: call remove|remove-all TARGET SET: removes a pool, and its set, too, through librpmem. */
#include <err.h>
#include <string.h>

#include <librpmem.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "usage: call remove|remove-all TARGET SET");
    const int flags = strcmp(argv[1], "remove-all") == 0 ? RPMEM_REMOVE_POOL_SET : 0;
    if (rpmem_remove(argv[2], argv[3], flags) != 0)
        errx(1, "%s", rpmem_errormsg());
    return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
// Preloaded: msync() fails with ESTALE, as on NFS, as long as the file FAILING_MSYNC_FILE is there.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int msync(void *start, size_t length, int flags)
{
    const char *const file = getenv("FAILING_MSYNC_FILE");
    if (file != NULL && access(file, F_OK) == 0) {
        errno = ESTALE;
        return -1;
    }
    return (int)syscall(SYS_msync, start, length, flags);
}

// SPDX-License-Identifier: BSD-3-Clause
// Preloaded: fallocate() does not return as long as the file STOPPED_DISK_FILE exists. It creates this file with the
// extension ".reached".
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    const char *const file = getenv("STOPPED_DISK_FILE");
    char reached[4096];
    if (file != NULL && access(file, F_OK) == 0 &&
            snprintf(reached, sizeof(reached), "%s.reached", file) < (int)sizeof(reached)) {
        close(open(reached, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (access(file, F_OK) == 0)
            usleep(1000);
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

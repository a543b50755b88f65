/* SPDX-License-Identifier: BSD-3-Clause */
/* A preloaded library that fails sendmsg() as the kernel does for an interface or route without UDP segmentation: each
 * time, or only the first NO_SEGMENTATION_COUNT times. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    static int calls;
    const char *count = getenv("NO_SEGMENTATION_COUNT");
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR((struct msghdr *)message, c)) {
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT && (count == NULL || calls++ < atoi(count))) {
            errno = EIO;
            return -1;
        }
    }
    return next(fd, message, flags);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "wait.h"

#include <err.h>
#include <errno.h>
#include <time.h>

#include "status.h"

int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int wait_readable(struct pollfd *fds, nfds_t count, int timeout_s, const char *awaited)
{
    const int64_t deadline_ms = now_ms() + (int64_t)timeout_s * 1000;

    for (;;) {
        const int64_t left_ms = deadline_ms - now_ms();
        const int ready = poll(fds, count, timeout_s == 0 ? -1 : left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0)
            return STATUS_OK;
        if (ready == 0) {
            warnx("timeout: no %s within %d s (is the peer still running? See --timeout)", awaited, timeout_s);
            return STATUS_FAILED;
        }
        if (errno != EINTR) {
            warn("poll");
            return STATUS_FAILED;
        }
    }
}

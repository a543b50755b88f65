// SPDX-License-Identifier: BSD-3-Clause
#include "deadline.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

int deadline_ms(void)
{
    const char *seconds = getenv("RPMA_TEST_DEADLINE_S");
    return 1000 * (seconds ? atoi(seconds) : 20);
}

int64_t deadline(void)
{
    return now_ms() + deadline_ms();
}

bool readable_by(int fd, int64_t until)
{
    for (;;) {
        int64_t left = until - now_ms();
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        int ready = poll(&entry, 1, left > 0 ? (int)left : 0);
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

void sleep_ms(int milliseconds)
{
    struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    nanosleep(&time, NULL);
}

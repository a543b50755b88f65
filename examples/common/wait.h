// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_WAIT_H
#define EXAMPLES_WAIT_H 1

#include <poll.h>
#include <stdint.h>

/* Returns monotonic time in milliseconds. */
int64_t now_ms(void);

/*
 * Waits up to timeout_s seconds (0: no limit) until a descriptor is readable, and sets revents. The timeout message
 * contains `awaited`, the name of the event. Returns a status.
 */
int wait_readable(struct pollfd *fds, nfds_t count, int timeout_s, const char *awaited);

#endif /* EXAMPLES_WAIT_H */

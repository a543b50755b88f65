// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_WAIT_H
#define EXAMPLES_WAIT_H 1

#include <poll.h>
#include <stdint.h>

/* Milliseconds of a clock that nobody sets. */
int64_t now_ms(void);

/*
 * Waits up to timeout_s seconds (0: no limit) until one of the descriptors is readable; their revents tell which.
 * awaited names what should come, for the message if nothing does. Returns a status.
 */
int wait_readable(struct pollfd *fds, nfds_t count, int timeout_s, const char *awaited);

#endif /* EXAMPLES_WAIT_H */

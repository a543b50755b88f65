// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EVENT_LOOP_H
#define EXAMPLES_EVENT_LOOP_H 1

#include <stdbool.h>
#include <stdint.h>

/* Waits for many file descriptors at once, with epoll(7). */
struct event_loop {
    int epoll_fd;
};

/* Action for a readable descriptor. Owned by the caller, and must not move while it is watched. */
struct watch {
    int (*handle)(void *context); /* takes what there is, which may be nothing; returns a status */
    void *context;
    int fd;
};

#define NO_DEADLINE INT64_MAX

/* Returns a status, as the others with an int result do. */
int event_loop_open(struct event_loop *loop);
void event_loop_close(struct event_loop *loop);

/* Watches fd, which becomes non-blocking: a librpma function that takes from it then answers instead of waiting. */
int event_loop_watch(struct event_loop *loop, struct watch *watch, int fd);
void event_loop_unwatch(struct event_loop *loop, const struct watch *watch);

/*
 * Handles one event, which may therefore delete whatever else is watched. Nothing until deadline_ms, a time of now_ms()
 * or NO_DEADLINE, makes *is_silent true.
 */
int event_loop_step(struct event_loop *loop, int64_t deadline_ms, bool *is_silent);

#endif /* EXAMPLES_EVENT_LOOP_H */

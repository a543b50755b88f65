// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EVENT_LOOP_H
#define EXAMPLES_EVENT_LOOP_H 1

#include <stdbool.h>
#include <stdint.h>

/* Waits for many file descriptors with epoll(7). */
struct event_loop {
    int epoll_fd;
};

/* Handler of a readable descriptor. The caller owns it, and must not move it while it is watched. */
struct watch {
    int (*handle)(void *context); /* handles the input, if any; returns a status */
    void *context;
    int fd;
};

#define NO_DEADLINE INT64_MAX

/* Opens the loop. Functions with an int result return a status. */
int event_loop_open(struct event_loop *loop);
void event_loop_close(struct event_loop *loop);

/* Watches fd and makes it non-blocking, so that librpma functions that use it do not block. */
int event_loop_watch(struct event_loop *loop, struct watch *watch, int fd);
void event_loop_unwatch(struct event_loop *loop, const struct watch *watch);

/*
 * Handles one event. Its handler may delete other watched objects. Sets *is_silent if no event occurs before
 * deadline_ms, a time of now_ms() or NO_DEADLINE.
 */
int event_loop_step(struct event_loop *loop, int64_t deadline_ms, bool *is_silent);

#endif /* EXAMPLES_EVENT_LOOP_H */

// SPDX-License-Identifier: BSD-3-Clause
#include "event_loop.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "status.h"
#include "wait.h"

int event_loop_open(struct event_loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd >= 0)
        return STATUS_OK;

    warn("epoll_create1");
    return STATUS_FAILED;
}

void event_loop_close(struct event_loop *loop)
{
    if (loop->epoll_fd >= 0)
        (void)close(loop->epoll_fd);
    loop->epoll_fd = -1;
}

int event_loop_watch(struct event_loop *loop, struct watch *watch, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    const int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        warn("fcntl");
        return STATUS_FAILED;
    }
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        warn("epoll_ctl");
        return STATUS_FAILED;
    }
    watch->fd = fd;
    return STATUS_OK;
}

void event_loop_unwatch(struct event_loop *loop, const struct watch *watch)
{
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

/* Returns -1 (no limit) for NO_DEADLINE. */
static int time_left_ms(int64_t deadline_ms)
{
    if (deadline_ms == NO_DEADLINE)
        return -1;

    const int64_t left_ms = deadline_ms - now_ms();
    return left_ms <= 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int event_loop_step(struct event_loop *loop, int64_t deadline_ms, bool *is_silent)
{
    struct epoll_event event;
    const int ready = epoll_wait(loop->epoll_fd, &event, 1, time_left_ms(deadline_ms));

    *is_silent = ready == 0;
    if (ready > 0) {
        const struct watch *watch = event.data.ptr;
        return watch->handle(watch->context);
    }
    if (ready == 0 || errno == EINTR)
        return STATUS_OK;
    warn("epoll_wait");
    return STATUS_FAILED;
}

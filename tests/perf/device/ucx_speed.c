/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures a put and a flush of UCX into memory that the other process allocated. A thread of that process polls.
 *
 * usage: UCX_TLS=posix,cma ucx_speed [threads]
 *
 * Prints bytes and nanoseconds of each size in a line, separated by a tab. With `threads`, prints the line of
 * show_threads() for threads that have a worker each, and memory that UCX maps into both processes.
 */
#include "timing.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

struct end {
    ucp_context_h context;
    ucp_worker_h worker;
};

struct put {
    struct end end;
    ucp_ep_h ep;
    ucp_rkey_h key;
    uint64_t target;
    uint8_t *source;
    size_t bytes;
};

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "ucx_speed: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void transfer(int fd, void *data, size_t length, ssize_t (*move)(int, void *, size_t))
{
    for (uint8_t *at = data; length != 0;) {
        const ssize_t moved = move(fd, at, length);
        if (moved <= 0)
            exit(1);
        at += moved;
        length -= (size_t)moved;
    }
}

static ssize_t write_some(int fd, void *data, size_t length)
{
    return write(fd, data, length);
}

static void send_data(int fd, const void *data, size_t length)
{
    transfer(fd, &length, sizeof(length), write_some);
    transfer(fd, (void *)(uintptr_t)data, length, write_some);
}

static void *receive_data(int fd)
{
    size_t length = 0;
    transfer(fd, &length, sizeof(length), read);
    void *data = malloc(length);
    transfer(fd, data, length, read);
    return data;
}

static void open_end(struct end *e)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
    check(ucp_init(&params, NULL, &e->context), "ucp_init");
    const ucp_worker_params_t worker = {
            .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    check(ucp_worker_create(e->context, &worker, &e->worker), "ucp_worker_create");
}

static void serve(int fd, bool mappable)
{
    struct end e;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(1);
    open_end(&e);
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
            .address = mappable ? NULL : calloc(1, memory_size),
            .length = memory_size,
            .flags = mappable ? UCP_MEM_MAP_ALLOCATE : 0};
    ucp_mem_h region = NULL;
    check(ucp_mem_map(e.context, &params, &region), "ucp_mem_map");
    ucp_mem_attr_t mapped = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    check(ucp_mem_query(region, &mapped), "ucp_mem_query");
    ucp_address_t *address = NULL;
    void *key = NULL;
    size_t length = 0;
    check(ucp_worker_get_address(e.worker, &address, &length), "ucp_worker_get_address");
    send_data(fd, address, length);
    check(ucp_rkey_pack(e.context, region, &key, &length), "ucp_rkey_pack");
    send_data(fd, key, length);
    send_data(fd, &mapped.address, sizeof(mapped.address));
    for (;;)
        ucp_worker_progress(e.worker);
}

static void finish(struct put *p, ucs_status_ptr_t request, const char *what)
{
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), what);
    if (request == NULL)
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(p->end.worker);
    check(ucp_request_check_status(request), what);
    ucp_request_free(request);
}

static void put_and_flush(void *put)
{
    struct put *p = put;
    const ucp_request_param_t plain = {0};
    finish(p, ucp_put_nbx(p->ep, p->source, p->bytes, p->target + offset, p->key, &plain), "ucp_put_nbx");
    finish(p, ucp_ep_flush_nbx(p->ep, &plain), "ucp_ep_flush_nbx");
}

static void connect_to(struct put *p, const void *address, const void *key, uint64_t target)
{
    *p = (struct put){.source = calloc(1, memory_size), .target = target, .bytes = sizes[0]};
    open_end(&p->end);
    const ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    check(ucp_ep_create(p->end.worker, &to, &p->ep), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(p->ep, key, &p->key), "ucp_ep_rkey_unpack");
}

int main(int argc, char **argv)
{
    const bool in_threads = argc == 2 && strcmp(argv[1], "threads") == 0;
    int ends[2];
    know_processors();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return 1;
    const pid_t pid = fork();
    if (pid == 0)
        serve(ends[1], in_threads);
    pin(0);
    struct put puts[threads];
    struct contender each[threads];
    uint64_t target = 0;
    const void *address = receive_data(ends[0]);
    const void *key = receive_data(ends[0]);
    memcpy(&target, receive_data(ends[0]), sizeof(target));
    for (size_t i = 0; i < (in_threads ? threads : 1); ++i) {
        connect_to(&puts[i], address, key, target);
        each[i] = (struct contender){put_and_flush, &puts[i], 1, 0};
    }
    if (in_threads)
        show_threads(each, sizes[0]);
    for (size_t i = 0; !in_threads && i < size_count; ++i) {
        puts[0].bytes = sizes[i];
        printf("%zu\t%.1f\n", sizes[i], time_of(&each[0], sizes[i]));
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}

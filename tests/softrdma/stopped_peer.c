/* SPDX-License-Identifier: BSD-3-Clause */
#include "stopped_peer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Disables the leak detector of sanitized builds, because each peer exits with an open connection. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static uint8_t *trap;         /* page of the peer's buffer without read permission */
static bool hangs_up = false; /* whether the peer closes its TCP connections before it stops */

static void hang_up(void)
{
    struct sockaddr_storage name;
    for (int fd = 3; fd < 1024; ++fd) {
        socklen_t len = sizeof(name);
        if (getpeername(fd, (struct sockaddr *)&name, &len) == 0 && name.ss_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
}

static void stop_until_continued(int number)
{
    if (hangs_up)
        hang_up();
    raise(SIGSTOP);
    mprotect(trap, page, PROT_READ | PROT_WRITE);
}

static void receive_order(int from, struct order *order)
{
    if (read(from, order, sizeof(*order)) != sizeof(*order))
        _exit(1);
}

static void end_with(struct remote *r)
{
    struct ibv_wc wc = next_completion(r->pair.client.cq);
    _exit(wc.status == IBV_WC_SUCCESS ? ends_well : ends_badly);
}

/* Returns the offset of a message whose second half lies in that page. */
static size_t set_trap(struct side *own)
{
    const uintptr_t end = (uintptr_t)own->memory + 8 * page;
    trap = (uint8_t *)(end - end % page);
    memset(own->memory, sent, own->size);
    signal(SIGSEGV, stop_until_continued);
    assert_int_equal(mprotect(trap, page, PROT_NONE), 0);
    return (size_t)(trap - own->memory) - message / 2;
}

void send_stopped(struct remote *r)
{
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_SEND, 1, at, message, NULL, 0, 0), 0);
    end_with(r);
}

/* The peer maps the target's file with the first request or shortly after it. */
void write_stopped(struct remote *r)
{
    for (unsigned i = 0; i < 2; ++i, usleep(200000)) {
        assert_int_equal(post(&r->pair.client, IBV_WR_RDMA_WRITE, 0, 0, 8, &r->target, page, 0), 0);
        expect_completion(r->pair.client.cq, 0, IBV_WC_SUCCESS);
    }
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_RDMA_WRITE, 1, at, message, &r->target, 0, 0), 0);
    end_with(r);
}

void write_stopped_and_hung_up(struct remote *r)
{
    hangs_up = true;
    write_stopped(r);
}

/* Stops between two operations. */
void stop_then_send(struct remote *r)
{
    memset(r->pair.client.memory, sent, r->pair.client.size);
    raise(SIGSTOP);
    if (post(&r->pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0) != 0)
        _exit(ends_badly);
    end_with(r);
}

void wait_forever(struct remote *r)
{
    for (;;)
        pause();
}

struct peer start_peer(void (*act)(struct remote *r))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const struct peer p = {.pid = fork(), .order_pipe = ends[1]};
    assert_true(p.pid >= 0);
    if (p.pid != 0) {
        close(ends[0]);
        return p;
    }
    close(ends[1]);
    struct order order;
    struct remote r = {.size = size};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    receive_order(ends[0], &order);
    call_server(&r, order.port);
    receive_order(ends[0], &order);
    r.mr.rkey = order.rkey;
    r.target = (struct side){.memory = (uint8_t *)(uintptr_t)order.addr, .mr = &r.mr};
    act(&r);
    _exit(1);
}

void order(const struct peer *peer, const struct order *what)
{
    assert_int_equal(write(peer->order_pipe, what, sizeof(*what)), sizeof(*what));
}

uint8_t *map_open_file(void)
{
    int file; /* stays open until the process exits */
    return map_file(size, MAP_SHARED, &file);
}

void accept_peer(const struct peer *peer, struct pair *p, const struct options *options)
{
    memset(p, 0, sizeof(*p));
    open_listener(p, "127.0.0.1");
    order(peer, &(struct order){.port = rdma_get_src_port(p->listener)});
    struct rdma_cm_event *request = take_request(p);
    accept_request(p, request, options);
    memset(p->server.memory, before, size);
    assert_int_equal(post_receive(&p->server, 7, 0, message), 0);
    assert_int_equal(expect_event(p->listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

void expect_stopped(const struct peer *peer)
{
    int status = 0;
    assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    assert_true(WIFSTOPPED(status));
}

int continue_peer(const struct peer *peer)
{
    assert_int_equal(kill(peer->pid, SIGCONT), 0);
    return exit_code_of(peer->pid);
}

/* ThreadSanitizer does not know that the peer is stopped, and would report a race with its stores. */
__attribute__((no_sanitize("thread"))) void clear_memory(const struct pair *p)
{
    volatile uint8_t *memory = p->server.memory; /* prevents a call of memset, which ThreadSanitizer intercepts */
    for (size_t i = 0; i < size; ++i)
        memory[i] = before;
}

__attribute__((no_sanitize("thread"))) void expect_memory_unchanged(const struct pair *p)
{
    for (size_t i = 0; i < size; ++i)
        assert_int_equal(p->server.memory[i], before);
}

void expect_nothing(struct pair *p)
{
    expect_no_completion_for(p->server.cq, 200);
    expect_memory_unchanged(p);
}

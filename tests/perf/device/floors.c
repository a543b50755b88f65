/* SPDX-License-Identifier: BSD-3-Clause */
#include "floors.h"
#include "timing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    acknowledgement = 32,
    longest = 256, /* message in shared memory */
};

static void fail(const char *what)
{
    fprintf(stderr, "device_speed: %s: %s\n", what, strerror(errno));
    exit(1);
}

void floor_process_vm(void *floors)
{
    const struct floors *f = floors;
    const struct iovec from = {f->source, f->bytes};
    const struct iovec to = {f->theirs, f->bytes};
    if (process_vm_writev(f->owner, &from, 1, &to, 1, 0) != (ssize_t)f->bytes)
        fail("process_vm_writev");
}

void floor_memcpy(void *floors)
{
    const struct floors *f = floors;
    memcpy(f->target, f->source, f->bytes);
    atomic_thread_fence(memory_order_seq_cst);
}

void floor_memcpy_and_msync(void *floors)
{
    const struct floors *f = floors;
    floor_memcpy(floors);
    if (msync(f->target, f->bytes, MS_SYNC) != 0)
        fail("msync");
}

struct ring {
    _Alignas(64) _Atomic uint64_t turn;
    uint8_t message[longest];
};

struct rings {
    struct ring there;
    struct ring back;
};

static void put(struct ring *r, uint64_t turn, const uint8_t *message, size_t bytes)
{
    memcpy(r->message, message, bytes);
    atomic_store_explicit(&r->turn, turn, memory_order_release);
}

static void take(struct ring *r, uint64_t turn, uint8_t *message, size_t bytes)
{
    while (atomic_load_explicit(&r->turn, memory_order_acquire) != turn)
        continue;
    memcpy(message, r->message, bytes);
}

/* Forks a child that runs on the second processor and is killed when its parent exits. */
static pid_t fork_partner(void)
{
    const pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
    }
    return pid;
}

void start_messenger(struct partner *p, size_t bytes)
{
    *p = (struct partner){.bytes = bytes, .source = calloc(1, bytes), .socket = -1};
    p->rings = mmap(NULL, sizeof(*p->rings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->rings == MAP_FAILED)
        fail("mmap");
    p->pid = fork_partner();
    if (p->pid != 0)
        return;
    uint8_t message[longest];
    for (uint64_t turn = 1;; ++turn) {
        take(&p->rings->there, turn, message, bytes);
        put(&p->rings->back, turn, message, bytes);
    }
}

void exchange_message(void *partner)
{
    struct partner *p = partner;
    const uint64_t turn = atomic_load_explicit(&p->rings->there.turn, memory_order_relaxed) + 1;
    put(&p->rings->there, turn, p->source, p->bytes);
    take(&p->rings->back, turn, p->source, p->bytes);
}

static void send_all(int fd, const uint8_t *data, size_t bytes)
{
    while (bytes != 0) {
        const ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
        if (sent < 0)
            fail("send");
        data += sent;
        bytes -= (size_t)sent;
    }
}

static void receive_all(int fd, uint8_t *data, size_t bytes)
{
    while (bytes != 0) {
        const ssize_t received = recv(fd, data, bytes, MSG_DONTWAIT);
        if (received == 0 || (received < 0 && errno != EAGAIN))
            fail("recv");
        if (received > 0) {
            data += received;
            bytes -= (size_t)received;
        }
    }
}

/* Connects both ends over TCP on loopback, without pacing, as the device does. */
static void connect_ends(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
            getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
            connect(ends[0], (struct sockaddr *)&address, length) != 0 || (ends[1] = accept(listener, NULL, NULL)) < 0)
        fail("a connection on loopback");
    close(listener);
    for (unsigned i = 0; i < 2; ++i) {
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (setsockopt(ends[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4) != 0)
            fail("TCP_CONGESTION");
    }
}

void start_on_tcp(struct partner *p, size_t bytes, unsigned messages)
{
    int ends[2];
    *p = (struct partner){.bytes = bytes, .source = malloc(bytes), .messages = messages};
    memset(p->source, 1, bytes); /* never-written memory maps the zero page, which is read faster */
    connect_ends(ends);
    p->pid = fork_partner();
    if (p->pid != 0) {
        close(ends[1]);
        p->socket = ends[0];
        return;
    }
    close(ends[0]);
    const uint8_t answer[acknowledgement] = {0};
    for (;;) {
        for (unsigned i = 0; i < messages; ++i)
            receive_all(ends[1], p->source, bytes);
        send_all(ends[1], answer, sizeof(answer));
    }
}

void send_on_tcp(void *partner)
{
    struct partner *p = partner;
    uint8_t answer[acknowledgement];
    for (unsigned i = 0; i < p->messages; ++i)
        send_all(p->socket, p->source, p->bytes);
    receive_all(p->socket, answer, sizeof(answer));
}

/* Sizes of the packets and their number, as in the device. */
enum {
    bth_and_crc = 16,
    reth = 16,
    aeth = 4,
    ack_interval = 16,
    in_flight = 64,
};

struct datagrams {
    struct mmsghdr messages[ack_interval];
    struct iovec parts[ack_interval][2];
    uint8_t headers[ack_interval][bth_and_crc + reth]; /* the first byte requests an acknowledgment */
};

static void answer_datagrams(int fd, size_t mtu)
{
    struct datagrams d = {0};
    uint8_t *const data = malloc(mtu * ack_interval);
    for (unsigned i = 0; i < ack_interval; ++i) {
        d.parts[i][0] = (struct iovec){d.headers[i], sizeof(d.headers[i])};
        d.parts[i][1] = (struct iovec){data + i * mtu, mtu};
        d.messages[i].msg_hdr = (struct msghdr){.msg_iov = d.parts[i], .msg_iovlen = 2};
    }
    for (;;) {
        const int count = recvmmsg(fd, d.messages, ack_interval, MSG_DONTWAIT, NULL);
        for (int i = 0; i < count; ++i)
            if (d.headers[i][0] != 0 && send(fd, d.headers[i], bth_and_crc + aeth, 0) < 0)
                fail("send");
    }
}

/* Connects both ends over UDP on loopback. */
void start_on_udp(struct partner *p, size_t bytes, unsigned messages, size_t mtu)
{
    int ends[2];
    struct sockaddr_in addresses[2];
    *p = (struct partner){.bytes = bytes, .source = malloc(bytes), .messages = messages, .mtu = mtu};
    memset(p->source, 1, bytes);
    for (unsigned i = 0; i < 2; ++i) {
        socklen_t length = sizeof(addresses[i]);
        addresses[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        ends[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(ends[i], (struct sockaddr *)&addresses[i], length) != 0 ||
                getsockname(ends[i], (struct sockaddr *)&addresses[i], &length) != 0 ||
                setsockopt(ends[i], SOL_SOCKET, SO_RCVBUFFORCE, &(int){8 << 20}, sizeof(int)) != 0)
            fail("a UDP socket with a buffer of 8 MiB");
    }
    for (unsigned i = 0; i < 2; ++i)
        if (connect(ends[i], (struct sockaddr *)&addresses[1 - i], sizeof(addresses[i])) != 0)
            fail("a connection over UDP");
    p->pid = fork_partner();
    p->socket = ends[p->pid == 0];
    close(ends[p->pid != 0]);
    if (p->pid == 0)
        answer_datagrams(p->socket, mtu);
}

void send_on_udp(void *partner)
{
    static struct datagrams d;
    struct partner *p = partner;
    uint8_t answer[bth_and_crc + aeth];
    const size_t per_message = (p->bytes + p->mtu - 1) / p->mtu;
    const size_t all = per_message * p->messages;
    size_t sent = 0;
    for (size_t acknowledged = 0; acknowledged < all;) {
        unsigned count = 0;
        for (; count < ack_interval && sent + count < all && sent + count - acknowledged < in_flight; ++count) {
            const size_t at = (sent + count) % per_message * p->mtu;
            const size_t left = p->bytes - at;
            d.headers[count][0] = 0;
            d.parts[count][0] = (struct iovec){d.headers[count], bth_and_crc + (at == 0 ? reth : 0)};
            d.parts[count][1] = (struct iovec){p->source + at, left < p->mtu ? left : p->mtu};
            d.messages[count].msg_hdr = (struct msghdr){.msg_iov = d.parts[count], .msg_iovlen = 2};
        }
        if (count > 0) {
            d.headers[count - 1][0] = 1;
            if (sendmmsg(p->socket, d.messages, count, 0) != (int)count)
                fail("sendmmsg");
            sent += count;
        }
        if (sent - acknowledged == in_flight || sent == all) {
            receive_all(p->socket, answer, sizeof(answer));
            acknowledged += all - acknowledged < ack_interval ? all - acknowledged : ack_interval;
        }
    }
}

void stop_partner(struct partner *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    if (p->socket >= 0)
        close(p->socket);
    if (p->rings != NULL)
        munmap(p->rings, sizeof(*p->rings));
    free(p->source);
}

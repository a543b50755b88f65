/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SOFTRDMA_STOPPED_PEER_H
#define SOFTRDMA_STOPPED_PEER_H

#include "remote.h"

/* A peer that is stopped while it executes a request in the memory of this process. The request accesses an
 * unreadable page, between the peer's last read of shared state and its store. The handler of that signal stops the
 * peer there. */

enum {
    page = 4096,
    size = 16 * page,
    message = 128,
    before = 0x11, /* contents of memory before the operation */
    sent = 0x77,   /* data that the peer sends */
    ends_well = 2, /* how a peer ends whose last request succeeded */
    ends_badly = 3,
};

/* Instructions for the peer: the port to connect to, then the address to write to. */
struct order {
    uint16_t port; /* network order */
    uint64_t addr;
    uint32_t rkey;
};

struct peer {
    pid_t pid;
    int order_fd;
};

/* Actions of the connected peer. Each ends it. */
void send_stopped(struct remote *r);
void write_stopped(struct remote *r);
void write_stopped_and_hung_up(struct remote *r); /* stopped without a connection, other than by memory */
void stop_then_send(struct remote *r);            /* stopped outside of every operation */
void wait_for_the_end(struct remote *r);

/* Maps a deleted file. An ordinary user reaches it only through a descriptor of its process, which therefore stays
 * open. */
uint8_t *map_open_file(void);

/* Call before any verbs call of this process. */
struct peer start_peer(void (*act)(struct remote *r));
/* Accepts its connection, with one receive for a message. */
void let_in(const struct peer *peer, struct pair *p, const struct options *options);
/* Sends the peer its instructions, so that it starts. */
void order(const struct peer *peer, const struct order *what);

void expect_stopped(const struct peer *peer);
/* How it ends: ends_well or ends_badly. */
int let_it_go_on(const struct peer *peer);
void clear_memory(const struct pair *p);
void expect_no_byte(const struct pair *p);
/* For a while, no completion either. */
void expect_nothing(struct pair *p);

/* A test in a process of its own. */
#define TEST_IN_OWN_PROCESS(test)                                                                                      \
    static void test_##test(void **state)                                                                              \
    {                                                                                                                  \
        in_own_process(test);                                                                                          \
    }

#endif

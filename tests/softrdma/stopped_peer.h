/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "remote.h"

/* A peer that stops while it executes a request in the memory of this process. The request reads an unreadable page
 * after the peer's last check of shared state and before its store. The SIGSEGV handler then stops the peer. */

enum {
    page = 4096,
    size = 16 * page,
    message = 128,
    before = 0x11, /* contents of memory before the operation */
    sent = 0x77,   /* data that the peer sends */
    ends_well = 2, /* exit code of a peer whose last request succeeded */
    ends_badly = 3,
};

/* Instructions for the peer: the port to connect to, then the address to write to. */
struct order {
    uint16_t port; /* network byte order */
    uint64_t addr;
    uint32_t rkey;
};

struct peer {
    pid_t pid;
    int order_pipe;
};

/* Actions of the connected peer. Each ends the process. */
void send_stopped(struct remote *r);
void write_stopped(struct remote *r);
void write_stopped_and_hung_up(struct remote *r); /* stops after closing its TCP connections */
void stop_then_send(struct remote *r);            /* stops between two operations */
void wait_forever(struct remote *r);

/* Maps a deleted file. An unprivileged peer can open it only through a descriptor of this process, so that stays
 * open. */
uint8_t *map_open_file(void);

/* Call before any verbs call of this process. */
struct peer start_peer(void (*act)(struct remote *r));
/* Accepts the connection of the peer and posts one receive. */
void accept_peer(const struct peer *peer, struct pair *p, const struct options *options);
/* Sends the peer its instructions. The second order starts its action. */
void order(const struct peer *peer, const struct order *what);

void expect_stopped(const struct peer *peer);
/* Continues the peer. Returns its exit code: ends_well or ends_badly. */
int continue_peer(const struct peer *peer);
void clear_memory(const struct pair *p);
void expect_memory_unchanged(const struct pair *p);
/* Checks for 200 ms that no completion and no data arrives. */
void expect_nothing(struct pair *p);

/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "fixture.h"

/* Actions of a server process, in memory that it shares with its parent. */
struct server_plan {
    void (*prepare)(void);    /* before any verbs call, may be NULL */
    const char *address;      /* address of the listener; default: 127.0.0.1 */
    size_t size;              /* bytes of memory of each side; default: one page */
    int access;               /* access flags of the server's region; default: all */
    uint64_t send_ops;        /* operations of the client's ibv_wr_* interface; default: none */
    unsigned receives;        /* number of receives of 64 bytes that are posted when it accepts */
    unsigned shared_receives; /* number of receives in the shared receive queue of the queue pair; default: no such
                                 queue */
    size_t shared_size;       /* size of each shared receive; default: 64 bytes */
    void (*act)(struct pair *pair); /* called once connected; if NULL, the server waits forever */
};

enum {
    no_ack_timeout = 255
};

/* A server process and this process' connection to it. */
struct remote {
    pid_t pid;
    int in;
    const char *address;
    uint8_t *page;
    size_t size;
    uint64_t send_ops;
    uint8_t ack_timeout; /* value of RDMA_OPTION_ID_ACK_TIMEOUT of the client; default: not set */
    struct pair pair;    /* only the client side is used */
    struct side target;
    struct ibv_mr mr;
};

/* A server's message to its client in another process: first the port, then a region of the connection. */
struct greeting {
    uint16_t port; /* network order */
    uint64_t addr;
    uint32_t rkey;
};
void send_greeting(int out, const struct greeting *greeting);

/* A process that is killed with its parent, and the pipe that it reads. */
struct child {
    pid_t pid;
    int out;
};
/* Starts a process that calls the function and exits. Call before any verbs call of this process. */
struct child start_child(void (*act)(int in));
/* Listens, and accepts the connection of a child, which gets the port. */
void accept_child(struct pair *p, int out, const struct options *options);

/* Call before any verbs call of this process. `page` is shared memory or NULL. */
void start_server(struct remote *r, const struct server_plan *plan, uint8_t *page);
/* Connects to the server whose greetings arrive in the pipe `in`. */
void meet_server(struct remote *r);
/* Connects to any server of the host. start_server() calls it. `port` is in network order. */
void call_server(struct remote *r, uint16_t port);
/* Stops the threads of the server, so that only operations without its help succeed. */
void suspend_server(struct remote *r);
/* Kills the server and closes the client's side. */
void stop_server(struct remote *r);
/* A server that is stopped at the end of the block. */
#define REMOTE __attribute__((cleanup(stop_server))) struct remote
/* Defines such a server, starts it and connects to it. The other arguments are for start_server(). */
#define MEET_SERVER(name, ...)                                                                                         \
    REMOTE name;                                                                                                       \
    start_server(&name, __VA_ARGS__);                                                                                  \
    meet_server(&name)

/* Kills a child and waits for its end. */
void kill_child(pid_t child);
/* Runs a test in a child process, which may fork because it has not called verbs. */
void in_own_process(void (*test)(void));

/* Skips the running test unless root runs it. */
void require_root(void);

/* Defines a test that runs in a child process, after a call in this process. The function body follows. */
#define TEST_IN_OWN_PROCESS_AFTER(name, call)                                                                          \
    static void name##_in_child(void);                                                                                 \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        call;                                                                                                          \
        in_own_process(name##_in_child);                                                                               \
    }                                                                                                                  \
    static void name##_in_child(void)
#define TEST_IN_OWN_PROCESS(name) TEST_IN_OWN_PROCESS_AFTER(name, (void)0)
/* A test that becomes another user. */
#define TEST_IN_OWN_PROCESS_OF_ROOT(name) TEST_IN_OWN_PROCESS_AFTER(name, require_root())

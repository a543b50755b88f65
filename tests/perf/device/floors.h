/* SPDX-License-Identifier: BSD-3-Clause */
/* Time that the machine needs for the work of an operation: the minimum for any device. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct floors {
    size_t bytes;    /* bytes of one operation */
    uint8_t *source; /* data to copy */
    uint8_t *target; /* memory of the other process, mapped here */
    uint8_t *theirs; /* address of that memory in the other process */
    pid_t owner;     /* the other process */
};

void floor_process_vm(void *floors);
void floor_memcpy(void *floors);
void floor_memcpy_and_msync(void *floors);

/* A process on the second processor that responds as each pair of functions requires. */
struct partner {
    size_t bytes;
    uint8_t *source;
    struct rings *rings;
    int socket;
    unsigned messages; /* number of messages for each acknowledgment */
    size_t mtu;        /* payload of a datagram */
    pid_t pid;
};

/* Copies a message into shared memory and the reply out of it. */
void start_messenger(struct partner *p, size_t bytes);
void exchange_message(void *partner);
/* Sends messages over TCP on loopback and receives an acknowledgment of 32 bytes. Both sides poll. */
void start_on_tcp(struct partner *p, size_t bytes, unsigned messages);
void send_on_tcp(void *partner);
/* Sends messages over UDP on loopback in the packets that a WRITE over RoCE needs. The receiver acknowledges each
 * sixteenth packet and the last one; 64 packets may be in flight. Both sides poll. */
void start_on_udp(struct partner *p, size_t bytes, unsigned messages, size_t mtu);
void send_on_udp(void *partner);

void stop_partner(struct partner *p);

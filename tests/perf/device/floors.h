/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of the machine itself for the work of an operation: the minimum for any device. */
#ifndef DEVICE_FLOORS_H
#define DEVICE_FLOORS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct floors {
    size_t bytes;    /* bytes of one operation */
    uint8_t *source; /* data to copy */
    uint8_t *target; /* memory of the other process, where this one has it mapped */
    uint8_t *theirs; /* the same memory, where the other process has it */
    pid_t owner;     /* the other process */
};

void floor_process_vm(void *floors);
void floor_memcpy(void *floors);
void floor_memcpy_and_msync(void *floors);

/* Another process, on the second processor, that answers in the way each pair of functions needs. */
struct partner {
    size_t bytes;
    uint8_t *source;
    struct rings *rings;
    int socket;
    pid_t pid;
};

enum {
    stream_window = 16,
};

/* A message that is copied into shared memory, and one that is copied out of it: there and back. */
void start_messenger(struct partner *p, size_t bytes);
void exchange_message(void *partner);
/* A request with data and its acknowledgement of 32 bytes over TCP on loopback, both sides polling. */
void start_responder(struct partner *p, size_t bytes);
void request_and_acknowledgement(void *partner);
/* Sends `stream_window` chunks over TCP on loopback, and receives one acknowledgement. */
void start_sink(struct partner *p, size_t bytes);
void stream(void *partner);

void stop_partner(struct partner *p);

#endif

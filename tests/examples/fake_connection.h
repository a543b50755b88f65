// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdint.h>

#include <librpma.h>

/*
 * Replaces the functions of librpma that need a device. Events and completions occur in the order that the test
 * specifies. A wait after the last one does not return.
 */
struct fake_connection {
    const enum rpma_conn_event *events;
    int events_left;
    const struct ibv_wc *completions; /* FAKE_NO_COMPLETION as the status means an event without a completion */
    int completions_left;
    int disconnects;        /* number of rpma_conn_disconnect() calls */
    uintptr_t send_context; /* context of the last rpma_send() */
};

#define FAKE_NO_COMPLETION ((enum ibv_wc_status) - 1)

extern struct fake_connection fake_connection;

/* Result of rpma_mr_get_descriptor(): base 0x1000, 8192 bytes, rkey 0x01020304, WRITE_DST and both flush types. */
extern const unsigned char fake_mr_descriptor[21];

/* Resets the state and opens the descriptors that the waits poll. */
int fake_connection_open(void **state);
int fake_connection_close(void **state);

// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_SIGNALS_H
#define CONFORMANCE_SIGNALS_H

/*
 * After this call, a signal without effect and without restart interrupts the calling thread, and no other, every few
 * milliseconds.
 */
void begin_interrupting(void);

/* Runs the function in another thread after a while in which the caller can begin to wait. */
void run_later(void (*function)(void *argument), void *argument);

#endif

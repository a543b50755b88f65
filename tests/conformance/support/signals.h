// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_SIGNALS_H
#define CONFORMANCE_SIGNALS_H

/*
 * From now on a signal whose handler does nothing and that restarts nothing interrupts the calling thread every few
 * milliseconds, and nobody else.
 */
void begin_interrupting(void);

/* Runs the function in another thread after a while in which the caller can begin to wait. */
void run_later(void (*function)(void *argument), void *argument);

#endif

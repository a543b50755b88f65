// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/*
 * After this call, a signal interrupts the calling thread every few milliseconds, and no other thread. Its handler does
 * nothing and does not restart system calls.
 */
void begin_interrupting(void);

/* Calls the function in another thread after a delay, so that the caller can start to wait. */
void run_later(void (*function)(void *argument), void *argument);

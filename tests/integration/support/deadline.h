// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_TESTS_INTEGRATION_DEADLINE_H
#define RPMA_TESTS_INTEGRATION_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How long anything that must happen may take. Only failures wait that long. RPMA_TEST_DEADLINE_S, in seconds, says
 * it for devices or machines that are slower than those that the default of 20 is for.
 */
int deadline_ms(void);

/* Milliseconds of the monotonic clock. */
int64_t now_ms(void);

/* The moment until which to wait for something that starts now. */
int64_t deadline(void);

/* Whether fd became readable, or reached its end, before the moment until. */
bool readable_by(int fd, int64_t until);

void sleep_ms(int milliseconds);

#endif

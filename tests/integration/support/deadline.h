// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/*
 * Time limit of each expected event. Only failures wait that long. RPMA_TEST_DEADLINE_S sets it in seconds, for devices
 * or machines that are too slow for the default of 20.
 */
int deadline_ms(void);

/* Deadline of an event that is expected from now. */
int64_t deadline(void);

/* Returns true if fd became readable, or reached its end, before `until`. */
bool readable_by(int fd, int64_t until);

void sleep_ms(int milliseconds);

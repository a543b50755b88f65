// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "check.h"

void set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/* Causes one log message of level ERROR. */
void provoke_error(void);

/* Causes one log message of level INFO. */
void provoke_info(void);

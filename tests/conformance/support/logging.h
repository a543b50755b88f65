// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_LOGGING_H
#define CONFORMANCE_LOGGING_H

#include "check.h"

void set_threshold(enum rpma_log_threshold threshold, enum rpma_log_level level);

/* Logs one message of ERROR. */
void provoke_error(void);

/* Logs one message of INFO. */
void provoke_info(void);

#endif

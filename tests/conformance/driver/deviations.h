// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/* Cases that are known to fail on a library, with the reasons. */
struct deviations;

/*
 * Reads a file or an installed list, for example librpma-1.2.0. Exits the program if the file is not readable, a line
 * is malformed, or a case is unknown or listed twice.
 */
struct deviations *read_deviations(const char *path);
void free_deviations(struct deviations *deviations);

/* Returns NULL if the case is not listed or `deviations` is NULL. */
const char *deviation_reason(const struct deviations *deviations, const char *full_name);

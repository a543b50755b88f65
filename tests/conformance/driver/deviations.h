// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/*
 * Reads cases that are known to fail on a library, with the reasons, from a file or an installed list, for example
 * librpma-1.2.0. Exits the program if the file is not readable, a line is malformed, or a case is unknown or listed
 * twice.
 */
void read_deviations(const char *path);

/* Returns NULL if the case is not listed. */
const char *deviation_reason(const char *name);

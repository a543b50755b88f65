// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_DEVIATIONS_H
#define CONFORMANCE_DEVIATIONS_H

/* Cases that the library is known to fail, and why. */
struct deviations;

/*
 * path is a file, or the name of an installed list, for example librpma-1.2.0. Ends the program if the file cannot be
 * read, a line is malformed or a case is unknown or listed twice.
 */
struct deviations *read_deviations(const char *path);
void free_deviations(struct deviations *deviations);

/* NULL if the case is not listed, or without deviations. */
const char *deviation_reason(const struct deviations *deviations, const char *full_name);

#endif

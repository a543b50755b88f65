// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H 1

#include <stddef.h>

/*
 * Checks a text from a peer, which is not trusted: it must not be NULL or empty, and must end within `size` bytes.
 * `label` is used in the message. Returns a status.
 */
int check_text(const char *label, const char *text, size_t size);

/* Prints "<label>: <text>" to stdout after check_text. Returns a status. */
int print_text(const char *label, const char *text, size_t size);

#endif /* EXAMPLES_TEXT_H */

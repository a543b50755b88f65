// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H 1

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void check_output(void)
{
    const bool failed = ferror(stdout) != 0;
    errno = EIO;
    /* The stream does not store the reason of an error. Another write fails for the same reason. */
    if (failed)
        (void)!write(STDOUT_FILENO, "\n", 1);
    if (fclose(stdout) != 0 || failed) {
        warn("standard output");
        _exit(EXIT_FAILURE);
    }
}

/* Makes the program exit with 1 and the reason if its output could not be written, for example on a full disk. */
static inline void check_output_at_exit(void)
{
    if (atexit(check_output) != 0)
        warnx("standard output is not checked for errors: out of memory");
}

#endif /* EXAMPLES_OUTPUT_H */

// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_STATUS_H
#define EXAMPLES_STATUS_H 1

/* Exit statuses. The functions of the examples return 0 or one of these, after a line on stderr that says why. */
enum status {
    STATUS_OK = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_NO_DEVICE = 77
};

/* What a failing librpma function that returned ret met with: errno for a provider's failure, else the code's text. */
const char *reason(int ret);

/* Turns the answer of a librpma function into a status; if it is a failure, says which call failed and why. */
int check(const char *call, int ret);

/* Makes the program end with STATUS_FAILED if what it printed could not be written. */
void check_output_at_exit(void);

#endif /* EXAMPLES_STATUS_H */

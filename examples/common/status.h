// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_STATUS_H
#define EXAMPLES_STATUS_H 1

/* Exit statuses. The functions of the examples return 0, or one of these after an error line on stderr. */
enum status {
    STATUS_OK = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_NO_DEVICE = 77
};

/* Returns the description of the error ret of a librpma function: of errno for a provider's error, else of the code. */
const char *reason(int ret);

/* Converts the return value of a librpma function to a status. On error, prints the failed call and the reason. */
int check(const char *call, int ret);

/* Makes the program end with STATUS_FAILED if what it printed could not be written. */
void check_output_at_exit(void);

#endif /* EXAMPLES_STATUS_H */

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

/* Returns the description of an error of librpma: of errno for RPMA_E_PROVIDER, otherwise of `ret`. */
const char *reason(int ret);

/* Converts a return value of librpma to a status. On error, prints the failed call and the reason. */
int check(const char *call, int ret);

#endif /* EXAMPLES_STATUS_H */

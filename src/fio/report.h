// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_REPORT_H
#define RPMA_FIO_REPORT_H 1

struct thread_data;

/* Prints one line on stderr, after the engine's name. The line is not part of fio's report. */
void print_line(const struct thread_data *td, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like print_line(), and fails the job with error, an errno value. Returns error. */
int report(struct thread_data *td, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns the reason for the error ret of a librpma function. Call it directly after that function. */
const char *reason(int ret);

#endif /* RPMA_FIO_REPORT_H */

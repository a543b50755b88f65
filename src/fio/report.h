// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_REPORT_H
#define RPMA_FIO_REPORT_H 1

struct thread_data;

/* One line on stderr, headed by the engine's name. It never gets into fio's report. */
void note(const struct thread_data *td, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As note, and the job has failed with error, an errno. Returns error. */
int report(struct thread_data *td, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Why a function of librpma returned ret; for use right after it. */
const char *reason(int ret);

#endif /* RPMA_FIO_REPORT_H */

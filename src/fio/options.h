// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_OPTIONS_H
#define RPMA_FIO_OPTIONS_H 1

#include <fio.h>

enum aof_mode {
    AOF_MODE_SW,
    AOF_MODE_HW
};

/* One block for all engines, so that a section [global] suits both sides. fio requires an unused first member. */
struct engine_options {
    void *unused;
    char *server_ip;
    char *port;
    unsigned int direct_write_to_pmem;
    unsigned int busy_wait_polling;
    unsigned int connect_timeout; /* seconds */
    unsigned int idle_timeout;    /* seconds, 0: none */
    unsigned int mode;            /* an enum aof_mode, of the AoF engines only */
};

extern struct fio_option engine_options[];

/* Address that the thread connects to or listens on. Each thread of a fio run has its own port. */
struct endpoint {
    const char *address;
    char port[sizeof("65535")];
};

/* Returns 0, or an errno value after one line on stderr. */
int endpoint_of(struct thread_data *td, struct endpoint *endpoint);

#endif /* RPMA_FIO_OPTIONS_H */

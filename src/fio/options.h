// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_OPTIONS_H
#define RPMA_FIO_OPTIONS_H 1

#include <fio.h>

enum aof_mode {
    AOF_MODE_SW,
    AOF_MODE_HW
};

/* One block for all engines, so that a section [global] suits both sides. fio needs a member in front of all. */
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

/* Where the thread connects to or listens on: every thread of a fio run has a port of its own. */
struct endpoint {
    const char *address;
    char port[sizeof("65535")];
};

/* Returns 0, or an errno after one line on stderr. */
int endpoint_of(struct thread_data *td, struct endpoint *endpoint);

#endif /* RPMA_FIO_OPTIONS_H */

// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <fio.h>
#include <optgroup.h>

#include "report.h"

enum {
    MAX_PORT = 65535,
    MAX_TIMEOUT_S = 366 * 24 * 3600
};

struct fio_option engine_options[] = {
        {
                .name = "serverip",
                .lname = "Server's address",
                .type = FIO_OPT_STR_STORE,
                .off1 = offsetof(struct engine_options, server_ip),
                .help = "Address of an RDMA device: the server listens on it, the client connects to it",
                .def = "",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "port",
                .lname = "Base port",
                .type = FIO_OPT_STR_STORE,
                .off1 = offsetof(struct engine_options, port),
                .help = "Port of the first thread; the n-th thread of the run uses port + n - 1",
                .def = "7204",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "direct_write_to_pmem",
                .lname = "Direct write to PMem",
                .type = FIO_OPT_BOOL,
                .off1 = offsetof(struct engine_options, direct_write_to_pmem),
                .help = "Server: RDMA writes reach persistent memory past the CPU caches",
                .def = "0",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "busy_wait_polling",
                .lname = "Busy wait polling",
                .type = FIO_OPT_BOOL,
                .off1 = offsetof(struct engine_options, busy_wait_polling),
                .help = "Poll for completions; 0: sleep until one arrives",
                .def = "1",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "connect_timeout",
                .lname = "Connect timeout",
                .type = FIO_OPT_INT,
                .off1 = offsetof(struct engine_options, connect_timeout),
                .maxval = MAX_TIMEOUT_S,
                .help = "Client: seconds to wait for the server to listen",
                .def = "50",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "idle_timeout",
                .lname = "Idle timeout",
                .type = FIO_OPT_INT,
                .off1 = offsetof(struct engine_options, idle_timeout),
                .maxval = MAX_TIMEOUT_S,
                .help = "Server: seconds to wait for a client; 0: forever",
                .def = "0",
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = "mode",
                .lname = "Mode of the append-only file",
                .type = FIO_OPT_STR,
                .off1 = offsetof(struct engine_options, mode),
                .help = "AoF: side that makes appended data durable and moves the pointer; equal on both sides",
                .def = "sw",
                .posval = {{.ival = "sw",
                                   .oval = AOF_MODE_SW,
                                   .help = "Software: the server, on request by message (SEND and RECV)"},
                        {.ival = "hw",
                                .oval = AOF_MODE_HW,
                                .help = "Hardware: the client (FLUSH, ATOMIC WRITE, FLUSH)"}},
                .category = FIO_OPT_C_ENGINE,
                .group = FIO_OPT_G_INVALID,
        },
        {
                .name = NULL,
        },
};

int endpoint_of(struct thread_data *td, struct endpoint *endpoint)
{
    const struct engine_options *options = td->eo;
    if (!options->server_ip || !*options->server_ip)
        return report(td, EINVAL, "serverip= is missing (the address of the server)");
    /* fio accepts UINT_MAX, and with it -1, whatever the maximum is. */
    if (options->connect_timeout > MAX_TIMEOUT_S || options->idle_timeout > MAX_TIMEOUT_S)
        return report(td, EINVAL, "connect_timeout= or idle_timeout= exceeds %d seconds", MAX_TIMEOUT_S);

    char *end = NULL;
    errno = 0;
    const unsigned long base = strtoul(options->port, &end, 10);
    const unsigned long port = base + (unsigned long)td->thread_number - 1;
    if (errno || !isdigit((unsigned char)*options->port) || *end || base == 0 || base > MAX_PORT || port > MAX_PORT)
        return report(td, EINVAL, "port=%s plus %d for this thread is not a port from 1 to %d", options->port,
                td->thread_number - 1, MAX_PORT);
    endpoint->address = options->server_ip;
    (void)snprintf(endpoint->port, sizeof(endpoint->port), "%hu", (unsigned short)port);
    return 0;
}

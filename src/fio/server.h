// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_SERVER_H
#define RPMA_FIO_SERVER_H 1

#include <stdbool.h>
#include <stdint.h>

#include <fio.h>

#include "memory.h"
#include "session.h"

struct server;

/* Operations of a kind of server. They return 0, or a negative errno after reporting the error. */
struct server_kind {
    /* Returns the maximum number of outstanding requests. NULL if the server accepts no requests. */
    unsigned int (*max_messages)(const struct thread_data *td);

    /* Sets the sizes of the queues in cfg. Returns an error of librpma. May be NULL. */
    int (*configure)(const struct server *server, struct rpma_conn_cfg *cfg);

    /* Prepares a connection request for the first message of the client. May be NULL. */
    int (*on_connect)(struct thread_data *td, struct server *server, struct rpma_conn_req *request);

    /* Serves pending requests of the client, or sleeps shortly. Returns 1 when the client is done. */
    int (*serve)(struct thread_data *td, struct server *server);

    /* Executes a request and fills in the response, for a server that receives requests; 1: it is the client's final
     * message, which gets no answer. */
    int (*act)(struct thread_data *td, struct server *server, const void *message, size_t length, uint64_t *context);

    void (*end)(struct server *server);
};

struct server {
    const struct server_kind *kind;
    void *kind_data;
    unsigned int max_messages;
    struct session session;
    struct rpma_ep *endpoint;
    struct memory memory;
    struct rpma_mr_local *workspace;
};

/* `serve` of a server that only waits until the client disconnects. */
int server_watch(struct thread_data *td, struct server *server);

/* Functions of a fio engine. An engine's init function calls server_init with its kind. */
int server_init(struct thread_data *td, const struct server_kind *kind);
enum fio_q_status server_queue(struct thread_data *td, struct io_u *io_u);
int server_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *timeout);
struct io_u *server_event(struct thread_data *td, int event);
int server_get_file_size(struct thread_data *td, struct fio_file *file);
int server_open_file(struct thread_data *td, struct fio_file *file);
int server_close_file(struct thread_data *td, struct fio_file *file);
void server_cleanup(struct thread_data *td);

/* Members of struct ioengine_ops common to all servers. FIO_SYNCIO is not set: fio would warn about iodepth. */
#define SERVER_FUNCTIONS                                                                                               \
    .version = FIO_IOOPS_VERSION, .flags = FIO_DISKLESSIO | FIO_NOIO | FIO_NO_OFFLOAD, .queue = server_queue,          \
    .getevents = server_getevents, .event = server_event, .get_file_size = server_get_file_size,                       \
    .open_file = server_open_file, .close_file = server_close_file, .cleanup = server_cleanup,                         \
    .options = engine_options, .option_struct_size = sizeof(struct engine_options)

#endif /* RPMA_FIO_SERVER_H */

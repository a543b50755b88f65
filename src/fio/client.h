// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_CLIENT_H
#define RPMA_FIO_CLIENT_H 1

#include <stdbool.h>
#include <stdint.h>

#include <fio.h>

#include "session.h"

struct client;

/* Operations of a kind of client. They return 0, or a negative errno after reporting the error. */
struct client_kind {
    bool can_read;     /* whether reads are a workload, not only for verification */
    bool only_appends; /* whether every write has to follow the one before */

    /* Sets the queue sizes in cfg: entries for flushes depend on the flush method. */
    int (*configure)(const struct client *client, struct rpma_conn_cfg *cfg);

    /* Checks the server's description of its workspace, right after connecting. */
    int (*begin)(struct thread_data *td, struct client *client);

    /* Posts a flush of everything written before; the operation with this number is complete when it is. */
    int (*flush)(struct client *client, uint64_t offset, uint64_t length, uint64_t number);

    /* Builds the flush request of a message-based client, or the final message if all arguments are 0. Returns its
     * length. */
    size_t (*write_request)(
            const struct client *client, uint64_t offset, uint64_t length, uint64_t number, void *message);

    /* Takes the completion of a send or a receive, and advances flushed. NULL if there are no messages: executed
     * operations are then flushed. Returns -EPROTO without a report if the server violated the protocol. */
    int (*take_message)(struct client *client, const struct ibv_wc *wc);

    /* Sends the final message on a working connection, and frees the resources of begin. May be NULL. */
    void (*shut_down)(struct thread_data *td, struct client *client);
    void (*end)(struct client *client);
};

struct operation {
    struct io_u *io_u;
    bool is_flushed; /* a flush that covers the operation follows */
};

struct client {
    const struct client_kind *kind;
    void *kind_data;
    struct session session;
    struct rpma_mr_local *buffers; /* I/O units of fio */
    char *first_buffer;
    struct rpma_mr_remote *workspace;
    size_t workspace_size;
    bool is_pmem;
    bool has_direct_write;
    unsigned int max_messages;

    unsigned int depth;
    unsigned int max_flushes; /* in flight at once */
    bool flushes_each;        /* each write separately, because their addresses are not contiguous */

    struct io_u **queued;
    unsigned int queued_count;
    struct operation *posted; /* operation n is entry n % depth */
    uint64_t oldest;          /* number of the first operation that is not complete */
    uint64_t next;            /* number of the next operation to post */
    uint64_t executed;        /* all reads below this number are complete */
    uint64_t flushed;         /* all operations below this number are complete */
    unsigned int flushes;
    struct io_u **complete;
    unsigned int complete_count;
    unsigned int reported; /* completed I/O units returned by the last getevents */
    bool is_broken;
};

/* Functions of a fio engine. An engine's init function calls client_init with its kind. */
int client_init(struct thread_data *td, const struct client_kind *kind);
int client_post_init(struct thread_data *td);
enum fio_q_status client_queue(struct thread_data *td, struct io_u *io_u);
int client_commit(struct thread_data *td);
int client_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *timeout);
struct io_u *client_event(struct thread_data *td, int event);
int client_get_file_size(struct thread_data *td, struct fio_file *file);
int client_open_file(struct thread_data *td, struct fio_file *file);
int client_close_file(struct thread_data *td, struct fio_file *file);
void client_cleanup(struct thread_data *td);

#define CLIENT_FUNCTIONS                                                                                               \
    .version = FIO_IOOPS_VERSION, .flags = FIO_DISKLESSIO | FIO_NO_OFFLOAD | FIO_ASYNCIO_SETS_ISSUE_TIME,              \
    .post_init = client_post_init, .queue = client_queue, .commit = client_commit, .getevents = client_getevents,      \
    .event = client_event, .get_file_size = client_get_file_size, .open_file = client_open_file,                       \
    .close_file = client_close_file, .cleanup = client_cleanup, .options = engine_options,                             \
    .option_struct_size = sizeof(struct engine_options)

/* Connects; waits for a server that does not listen yet. Returns 0, or a negative errno after reporting the error. */
int client_connect(struct thread_data *td, struct client *client);

/* Waits for a completion and handles it. Returns 0 also if the server disconnects after the last operation. */
int client_wait(struct thread_data *td, struct client *client);

#endif /* RPMA_FIO_CLIENT_H */

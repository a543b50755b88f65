/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"
#include "registered_tests.h"
#include "resources.h"

enum {
    everything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    time_limit_ms = 60000, /* limit for an expected event */
    no_gid = -1,
};

/* One end of a connection with its queues and one registered buffer. */
struct side {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;
    size_t size;
    bool mapped;   /* the test provides the memory */
    bool has_file; /* the memory is a file that the side has mapped */
    bool borrowed; /* domain, region and memory are another side's */
};

struct options {
    const char *address; /* default 127.0.0.1 */
    size_t size;         /* default 4096 */
    unsigned depth;      /* depth of the send and receive queue, default 16 */
    int server_access;   /* default everything */
    void *server_memory; /* default malloc'd */
    int server_file;     /* the server's memory is an unnamed file that is mapped with these flags */
    uint8_t rnr_retry;   /* RNR retry count that both sides request, default 7 */
    bool server_srq;
    bool srq_apart;             /* the shared receive queue is in a domain of its own */
    unsigned server_recv_depth; /* default depth */
    uint64_t send_ops;          /* operations of the client's ibv_wr_* interface, default none */
    const struct side *lender;  /* both sides use its domain, region and memory; default their own */
};

/* A connected pair in this process. */
struct pair {
    struct rdma_event_channel *listen_channel;
    struct rdma_cm_id *listener;
    struct ibv_srq *srq;   /* the server's */
    struct ibv_pd *srq_pd; /* its domain, if that is not the server's */
    struct side client;
    struct side server;
};

/* Check a call that fails with that errno value: one that returns -1, and one that returns NULL. */
void expect_error(int result, int error);
void expect_null(const void *result, int error);

/* Waits until the condition is true. */
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        for (const int64_t limit = now_ms() + time_limit_ms; !(condition); usleep(100))                                \
            assert_true(now_ms() < limit);                                                                             \
    } while (0)
/* Waits until the descriptor is readable. */
void expect_readable(int fd);
/* Expects a descriptor that is not readable, and does not become so within that time. */
void expect_unreadable(int fd, int ms);

/* Returns the next asynchronous event, which must have that type. The caller acknowledges it. */
struct ibv_async_event next_async(struct ibv_context *context, enum ibv_event_type type);
/* Like next_async(), but acknowledges the event, whose element must be this object. */
void expect_async(struct ibv_context *context, enum ibv_event_type type, const void *element);
/* Waits for the event of a completion queue and acknowledges it. */
struct ibv_cq *take_cq_event(struct ibv_comp_channel *channel);

/* Calls the function in a thread. It must wait until finish_waiting_call(), and then return NULL. */
pthread_t start_waiting_call(void *(*call)(void *), void *argument);
void finish_waiting_call(pthread_t thread);

/* Returns whether SOFTRDMA_TRANSPORT has that value. */
bool is_over(const char *path);
bool is_over_roce(void);
/* Skips the running test over RoCE. */
void skip_over_roce(void);

void open_pair(struct pair *pair, const struct options *options);
void close_pair(struct pair *pair);
/* A pair that is closed at the end of the block. */
#define PAIR __attribute__((cleanup(close_pair))) struct pair
/* Defines and opens such a pair. The second argument is for open_pair(). */
#define OPEN_PAIR(name, ...)                                                                                           \
    PAIR name;                                                                                                         \
    open_pair(&name, __VA_ARGS__)

/* Open the pair that `state` points to, and close it, for one test. */
int set_up_pair(void **state, const struct options *options);
int tear_down_pair(void **state);
/* Like set_up_pair() without options. */
int connected(void **state);
/* Defines a test of the pair `p` that the setup opens. */
#define PAIR_TEST(name, setup) DEFINE_TEST_WITH(struct pair *p, name, setup, tear_down_pair)
/* Steps of open_pair(). */
void open_listener(struct pair *pair, const char *address);
void resolve_client(struct pair *pair, const struct options *options);
/* Creates the identifier of a client and resolves the route to that address. `from` may be NULL. */
void resolve_side(struct side *client, void *from, void *to);
void create_queues(struct side *side, struct ibv_srq *srq, const struct options *options, bool server);
void connect_client(struct pair *pair, const struct rdma_conn_param *param);
struct rdma_cm_event *take_request(struct pair *pair);
/* Creates the queues of the server and accepts the request. */
void accept_request(struct pair *pair, struct rdma_cm_event *request, const struct options *options);
void close_side(struct side *side);
/* Like close_side(). The side has a domain of its own. */
void close_with_pd(struct side *side);

/* Returns the exit code of a child that exits without being killed. */
int exit_code_of(pid_t child);

/* Waits for the next event, which must have that type. The caller acknowledges it. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Like next_event(), but acknowledges the event and returns its status. */
int expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Expects no event within a short time. */
void expect_no_event(struct rdma_event_channel *channel);

struct ibv_wc next_completion(struct ibv_cq *cq);
/* Returns the next completion, which must have that identifier and status. */
struct ibv_wc expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* Expects no completion, now or for that time. */
void expect_no_completion(struct ibv_cq *cq);
void expect_no_completion_for(struct ibv_cq *cq, unsigned ms);

/* The open device of a group of tests without the connection manager. These two functions open and close it. */
extern struct ibv_context *device;
int open_the_device(void **state);
int close_the_device(void **state);
/* Returns the address of this host, by its first GID. */
struct ibv_ah_attr own_address(struct ibv_context *context);
/* Returns the index of the GID, or no_gid. */
int gid_index_of(const char *text);

/* Signalled operations of one element inside the sides' buffers. */
int post(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, size_t length,
        const struct side *to, size_t to_offset, unsigned flags);
/* Like post() without flags. The request completes next, with that status. */
void post_and_expect(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, size_t length,
        const struct side *to, size_t to_offset, enum ibv_wc_status status);
int post_receive(struct side *side, uint64_t wr_id, size_t offset, size_t length);
/* Posts a receive of several elements. */
int post_receive_list(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge *sges, int count);
/* Posts an atomic operation whose result is stored at the start of the local buffer. */
int post_atomic(struct side *from, enum ibv_wr_opcode opcode, uint64_t wr_id, const struct side *to, size_t to_offset,
        uint64_t compare_add, uint64_t swap);
/* Posts one request, and part of a side's buffer as its element. */
int post_wr(struct side *from, struct ibv_send_wr wr);
/* Like post_and_expect(). */
void post_wr_and_expect(struct side *from, struct ibv_send_wr wr, enum ibv_wc_status status);
struct ibv_sge sge_of(const struct side *side, size_t offset, size_t length);
/* Post a receive, and a signaled SEND, without data. */
int post_empty_receive(struct ibv_qp *qp, uint64_t wr_id);
int post_empty_send(struct ibv_qp *qp);
/* Posts to a shared receive queue. This side has registered the memory. */
int post_shared_receive(struct ibv_srq *srq, const struct side *side, uint64_t wr_id, size_t offset, size_t length);

/* Returns attributes of a queue pair. */
struct ibv_qp_attr query(struct ibv_qp *qp, int mask);
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* Moves the queue pair to INIT with all access rights. */
void to_init(struct ibv_qp *qp);
/* Changes only the state. */
int enter_state(struct ibv_qp *qp, enum ibv_qp_state state);
void to_reset(struct ibv_qp *qp);
/* The transitions of a connected queue pair, with the attributes that each requires. Return the result of
 * ibv_modify_qp(), and store the new state in attr->qp_state. */
int modify_to_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr);
int modify_to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr);
/* Attributes of a connection to a queue pair of this host. */
struct ibv_qp_attr connection_to(struct ibv_context *context, uint32_t peer);
/* Moves the queue pair from RESET to RTS. */
void connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr);
/* Registers memory. */
struct ibv_mr *create_mr(struct ibv_pd *pd, void *memory, size_t length, int access);
/* Creates a shared receive queue with four elements per receive. */
struct ibv_srq *create_srq(struct ibv_pd *pd, uint32_t depth);
/* Creates a queue pair for which the connection manager is not necessary. */
struct ibv_qp *create_plain_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, unsigned depth);

void fill(uint8_t *memory, size_t length, unsigned seed);

/* Maps an unnamed file with these flags. The caller unmaps it and closes *fd; fd may be NULL. */
void *map_file(size_t size, int flags, int *fd);

/* Expects EOPNOTSUPP for a queue pair that requests these operations of the new post interface. */
void expect_no_send_ops(struct side *side, uint64_t ops);

/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture of every unit test: resets the fake stack, captures logs, and checks that no object is left at the end. */
#pragma once

#define TEST(name) DEFINE_TEST(name, begin_test, end_test)

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>

#include "fake_libc.h"
#include "fake_rdma.h"
#include "librpma.h"
#include "registered_tests.h"

int begin_test(void **state);

/* Objects of the running test, or NULL. end_test() deletes them. */
extern struct rpma_peer *peer;
extern struct rpma_ep *ep;
extern struct rpma_conn_cfg *cfg;
extern struct rpma_conn_req *req;
extern struct rpma_conn *conn;
extern struct rpma_srq *srq;
extern struct rpma_mr_local *mr;
extern struct rpma_mr_remote *remote;

/* Deletes these objects before the end of the test. */
void drop_objects(void);

/* Deletes the objects. Fails the test if another one is left over, or if one was misused. */
int end_test(void **state);

/* Tests that begin with a peer, and an endpoint or an outgoing connection with the default configuration. */
int begin_peer_test(void **state);
int begin_server_test(void **state);
int begin_conn_test(void **state);

#define PEER_TEST(name) DEFINE_TEST(name, begin_peer_test, end_test)
#define SERVER_TEST(name) DEFINE_TEST(name, begin_server_test, end_test)

/* Tests that begin with make_path() and a local region. */
int begin_path_test(void **state);
int begin_native_path_test(void **state);

#define PATH_TEST(name) DEFINE_TEST(name, begin_path_test, end_test)
#define NATIVE_PATH_TEST(name) DEFINE_TEST(name, begin_native_path_test, end_test)

/* An address that is not one of an object: dereferencing it crashes. */
#define BOGUS ((void *)0x0bad)

enum {
    ODD_FLAGS = 0xC412, /* signaled, with undefined bits */
    RKEY = 0x10111213,  /* key of every region of the peer */
    MR_SIZE = 4096
};

#define CONTEXT ((const void *)0xC417)

#define assert_provider(expression, error)                                                                             \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        assert_int_equal(expression, RPMA_E_PROVIDER);                                                                 \
        assert_int_equal(errno, error);                                                                                \
    } while (0)

/* Checks that the call succeeds and leaves errno alone. */
#define assert_done(expression)                                                                                        \
    do {                                                                                                               \
        errno = 77;                                                                                                    \
        assert_int_equal(expression, 0);                                                                               \
        assert_int_equal(errno, 77);                                                                                   \
    } while (0)

#define assert_calls(names) assert_string_equal(fake_calls(), names)

extern char test_memory[MR_SIZE];

struct rpma_peer *make_peer(void);
void drop_peer(struct rpma_peer *dropped);

/* Memory of MR_SIZE bytes, for every use. */
struct rpma_mr_local *make_mr(struct rpma_peer *of);
void drop_mr(struct rpma_mr_local *dropped);

/* Creates a region of the peer, as from its descriptor. */
struct rpma_mr_remote *make_remote(uint64_t address, uint64_t size, int usage);
void drop_remote(struct rpma_mr_remote *dropped);

/* An outgoing request and connection; the configuration may be NULL. */
struct rpma_conn_req *make_req(struct rpma_peer *of, const struct rpma_conn_cfg *with);
void drop_req(struct rpma_conn_req *dropped);
struct rpma_conn *make_conn(struct rpma_peer *of, const struct rpma_conn_cfg *with);
void drop_conn(struct rpma_conn *dropped);

/* Returns the next event of `conn`. */
enum rpma_conn_event next_event(void);

struct rpma_ep *make_ep(struct rpma_peer *of);
void drop_ep(struct rpma_ep *dropped);

/* The request of a client that sends "hello". */
struct rpma_conn_req *make_incoming_req(struct rpma_ep *at, const struct rpma_conn_cfg *with);

struct rpma_conn_cfg *make_cfg(bool shared, uint32_t rcq_size);

#define REMOTE_BASE 0x0001020304050600

/* Creates `conn`, a connection of `peer` to one that writes directly to PMem, and `remote`, a region of that one.
 * Deletes earlier objects of the test. */
void make_path(uint64_t address, uint64_t size, int usage);

/* The latest queue pair or identifier. */
struct ibv_qp *newest_qp(void);
struct rdma_cm_id *newest_id(void);

/* Number of messages of the level since the test began, and the latest one. */
unsigned log_count(enum rpma_log_level level);
const char *log_text(enum rpma_log_level level);

/* All messages since the test began, one per line, as far as they fit. */
const char *log_texts(void);

void set_nonblocking(int fd);
bool is_readable(int fd);

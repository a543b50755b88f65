// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LEVELS = RPMA_LOG_LEVEL_DEBUG + 1
};

char test_memory[MR_SIZE];

static struct {
    pthread_mutex_t mutex;
    unsigned count[LEVELS];
    char text[LEVELS][512];
    char texts[8192];
} captured = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static long allocations_before;
static long mappings_before;

__attribute__((format(printf, 5, 6))) static void capture(enum rpma_log_level level, const char *file_name,
        const int line_no, const char *function_name, const char *message_format, ...)
{
    char text[sizeof(captured.text[0])];
    va_list arguments;
    va_start(arguments, message_format);
    vsnprintf(text, sizeof(text), message_format, arguments);
    va_end(arguments);
    if (file_name == NULL || line_no <= 0 || function_name == NULL || strchr(text, '\n') == NULL)
        abort();

    pthread_mutex_lock(&captured.mutex);
    ++captured.count[level];
    memcpy(captured.text[level], text, sizeof(text));
    strncat(captured.texts, text, sizeof(captured.texts) - strlen(captured.texts) - 1);
    pthread_mutex_unlock(&captured.mutex);
    // A log function may change errno; the reported result must not depend on it.
    errno = 4095;
}

int begin_test(void **state)
{
    fake_reset();
    fake_libc_fail_none();
    fake_libc_forget_syslog();
    memset(captured.count, 0, sizeof(captured.count));
    memset(captured.text, 0, sizeof(captured.text));
    captured.texts[0] = '\0';
    unsetenv("RPMA_FLUSH_METHOD");
    unsetenv("RPMA_ATOMIC_WRITE_METHOD");
    unsetenv("RPMA_PEER_TIMEOUT_MS");
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    rpma_log_set_function(capture);
    allocations_before = fake_libc_allocations();
    mappings_before = fake_libc_mappings();
    return 0;
}

struct rpma_peer *peer;
struct rpma_ep *ep;
struct rpma_conn_cfg *cfg;
struct rpma_conn_req *req;
struct rpma_conn *conn;
struct rpma_srq *srq;
struct rpma_mr_local *mr;
struct rpma_mr_remote *remote;

void drop_objects(void)
{
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_int_equal(rpma_conn_req_delete(&req), 0);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_mr_remote_delete(&remote), 0);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

int end_test(void **state)
{
    fake_fail_call(0, 0, false);
    fake_libc_fail_none();
    drop_objects();
    int wrong = 0;
    if (*fake_problems() != '\0') {
        print_error("fake stack: %s\n", fake_problems());
        wrong = 1;
    }
    if (fake_libc_allocations() != allocations_before) {
        print_error("%ld allocations left over\n", fake_libc_allocations() - allocations_before);
        wrong = 1;
    }
    if (fake_libc_mappings() != mappings_before) {
        print_error("%ld mappings left over\n", fake_libc_mappings() - mappings_before);
        wrong = 1;
    }
    fake_reset();
    return wrong;
}

int begin_peer_test(void **state)
{
    begin_test(state);
    peer = make_peer();
    fake_forget_calls();
    return 0;
}

int begin_server_test(void **state)
{
    begin_peer_test(state);
    ep = make_ep(peer);
    fake_forget_calls();
    return 0;
}

int begin_conn_test(void **state)
{
    begin_peer_test(state);
    conn = make_conn(peer, NULL);
    fake_forget_calls();
    return 0;
}

static int begin_path(void)
{
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    mr = make_mr(peer);
    fake_forget_calls();
    return 0;
}

int begin_path_test(void **state)
{
    begin_test(state);
    return begin_path();
}

int begin_native_path_test(void **state)
{
    begin_test(state);
    fake_make_native();
    return begin_path();
}

unsigned log_count(enum rpma_log_level level)
{
    return captured.count[level];
}

const char *log_text(enum rpma_log_level level)
{
    return captured.text[level];
}

const char *log_texts(void)
{
    return captured.texts;
}

struct rpma_peer *make_peer(void)
{
    struct rpma_peer *created = NULL;
    assert_int_equal(rpma_peer_new(fake_context(), &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_mr_local *make_mr(struct rpma_peer *of)
{
    struct rpma_mr_local *created = NULL;
    const int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                      RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
    assert_int_equal(rpma_mr_reg(of, test_memory, sizeof(test_memory), usage, &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_mr_remote *make_remote(uint64_t address, uint64_t size, int usage)
{
    unsigned char descriptor[21];
    for (unsigned i = 0; i < 8; ++i) {
        descriptor[i] = (unsigned char)(address >> (8 * i));
        descriptor[8 + i] = (unsigned char)(size >> (8 * i));
    }
    const unsigned char rkey[] = {0x13, 0x12, 0x11, 0x10};
    memcpy(descriptor + 16, rkey, sizeof(rkey));
    descriptor[20] = (unsigned char)usage;
    struct rpma_mr_remote *created = NULL;
    assert_int_equal(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_conn_req *make_req(struct rpma_peer *of, const struct rpma_conn_cfg *with)
{
    struct rpma_conn_req *created = NULL;
    assert_int_equal(rpma_conn_req_new(of, "server", "7204", with, &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_conn *make_conn(struct rpma_peer *of, const struct rpma_conn_cfg *with)
{
    struct rpma_conn_req *outgoing = make_req(of, with);
    struct rpma_conn *created = NULL;
    assert_int_equal(rpma_conn_req_connect(&outgoing, NULL, &created), 0);
    assert_null(outgoing);
    assert_non_null(created);
    return created;
}

#define DEFINE_DROP(name, type, function)                                                                              \
    void drop_##name(struct type *dropped)                                                                             \
    {                                                                                                                  \
        assert_int_equal(function(&dropped), 0);                                                                       \
        assert_null(dropped);                                                                                          \
    }
DEFINE_DROP(peer, rpma_peer, rpma_peer_delete)
DEFINE_DROP(mr, rpma_mr_local, rpma_mr_dereg)
DEFINE_DROP(remote, rpma_mr_remote, rpma_mr_remote_delete)
DEFINE_DROP(req, rpma_conn_req, rpma_conn_req_delete)
DEFINE_DROP(conn, rpma_conn, rpma_conn_delete)
DEFINE_DROP(ep, rpma_ep, rpma_ep_shutdown)

enum rpma_conn_event next_event(void)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_int_equal(rpma_conn_next_event(conn, &event), 0);
    return event;
}

struct rpma_ep *make_ep(struct rpma_peer *of)
{
    struct rpma_ep *created = NULL;
    assert_int_equal(rpma_ep_listen(of, "here", "7204", &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_conn_req *make_incoming_req(struct rpma_ep *at, const struct rpma_conn_cfg *with)
{
    struct rpma_conn_req *created = NULL;
    fake_incoming("hello", 6);
    assert_int_equal(rpma_ep_next_conn_req(at, with, &created), 0);
    assert_non_null(created);
    return created;
}

struct rpma_conn_cfg *make_cfg(bool shared, uint32_t rcq_size)
{
    struct rpma_conn_cfg *created = NULL;
    assert_int_equal(rpma_conn_cfg_new(&created), 0);
    assert_int_equal(rpma_conn_cfg_set_compl_channel(created, shared), 0);
    assert_int_equal(rpma_conn_cfg_set_rcq_size(created, rcq_size), 0);
    return created;
}

void make_path(uint64_t address, uint64_t size, int usage)
{
    struct rpma_peer_cfg *pcfg = NULL;
    drop_objects();
    peer = make_peer();
    conn = make_conn(peer, NULL);
    remote = make_remote(address, size, usage);
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true), 0);
    assert_int_equal(rpma_conn_apply_remote_peer_cfg(conn, pcfg), 0);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
    fake_forget_calls();
}

struct ibv_qp *newest_qp(void)
{
    assert_true(fake_count(FAKE_QP) > 0);
    return fake_live(FAKE_QP, fake_count(FAKE_QP) - 1);
}

struct rdma_cm_id *newest_id(void)
{
    assert_true(fake_count(FAKE_CM_ID) > 0);
    return fake_live(FAKE_CM_ID, fake_count(FAKE_CM_ID) - 1);
}

void set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

bool is_readable(int fd)
{
    struct pollfd waited = {.fd = fd, .events = POLLIN};
    return poll(&waited, 1, 0) == 1;
}

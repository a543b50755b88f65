// SPDX-License-Identifier: BSD-3-Clause
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include <fio.h>

#include "report.h"

enum {
    NAP_MS = 100,                 /* maximum delay until a thread notices that fio ends it */
    DISCONNECT_TIMEOUT_MS = 5000, /* wait for the peer to confirm the end of a connection */
    POLLS_PER_EVENT_CHECK = 1024  /* polling events needs a system call, polling completions does not */
};

static pthread_once_t logging_is_set = PTHREAD_ONCE_INIT;

static void set_logging(void)
{
    bool is_verbose = false;
#ifdef FIO_INC_DEBUG
    is_verbose = (fio_debug & (1UL << FD_NET)) != 0;
#endif
    (void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
    (void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, is_verbose ? RPMA_LOG_LEVEL_INFO : RPMA_LOG_LEVEL_WARNING);
}

int session_open(struct thread_data *td, struct session *session, enum rpma_util_ibv_context_type side)
{
    const struct engine_options *options = td->eo;
    (void)pthread_once(&logging_is_set, set_logging);
    session->is_busy_waiting = options->busy_wait_polling != 0;
    int ret = endpoint_of(td, &session->endpoint);
    if (ret)
        return -ret;

    struct ibv_context *device = NULL;
    ret = rpma_utils_get_ibv_context(session->endpoint.address, side, &device);
    if (ret == 0)
        ret = rpma_peer_new(device, &session->peer);
    if (ret)
        return -report(td, ENODEV, "serverip=%s: RDMA device not found: %s (softrdma(1) emulates one)",
                session->endpoint.address, reason(ret));
    return 0;
}

int session_begin(struct thread_data *td, struct session *session, struct rpma_conn *conn)
{
    struct rpma_cq *cq = NULL;
    session->conn = conn;
    int ret = rpma_conn_get_event_fd(conn, &session->event_fd);
    if (ret == 0)
        ret = rpma_conn_get_cq(conn, &cq);
    if (ret == 0)
        ret = rpma_cq_get_fd(cq, &session->cq_fd);
    if (ret == 0)
        session->cq = cq;
    return ret ? -report(td, EIO, "cannot set up the connection: %s", reason(ret)) : 0;
}

static void take_event(struct session *session)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    if (rpma_conn_next_event(session->conn, &event) != 0 || event != RPMA_CONN_ESTABLISHED)
        session->is_closed = true;
}

static int wait_readable(struct session *session, nfds_t count, int timeout_ms)
{
    struct pollfd fds[] = {
            {.fd = session->event_fd, .events = POLLIN},
            {.fd = session->cq_fd, .events = POLLIN},
    };
    const int ready = poll(fds, count, timeout_ms);
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[0].revents)
        take_event(session);
    return count > 1 && fds[1].revents && rpma_cq_wait(session->cq) != 0 ? -EIO : 0;
}

int session_poll(struct session *session, struct ibv_wc *wc)
{
    const int ret = rpma_cq_get_wc(session->cq, 1, wc, NULL);
    if (ret == 0)
        return 1;
    return ret == RPMA_E_NO_COMPLETION ? 0 : -EIO;
}

int session_next_completion(struct session *session, struct ibv_wc *wc)
{
    const int ret = session_poll(session, wc);
    if (ret != 0)
        return ret;
    if (session->is_closed)
        return -ECONNRESET;
    if (!session->is_busy_waiting)
        return wait_readable(session, 2, NAP_MS);
    return ++session->empty_polls % POLLS_PER_EVENT_CHECK ? 0 : wait_readable(session, 1, 0);
}

int session_watch(struct session *session)
{
    return wait_readable(session, 1, NAP_MS);
}

void session_end(struct session *session)
{
    if (session->cq) {
        const bool can_confirm = !session->is_closed;
        (void)rpma_conn_disconnect(session->conn);
        if (can_confirm)
            (void)wait_readable(session, 1, DISCONNECT_TIMEOUT_MS);
    }
    session->cq = NULL;
    (void)rpma_conn_delete(&session->conn);
}

void session_close(struct session *session)
{
    (void)rpma_peer_delete(&session->peer);
}

int wait_for(const struct thread_data *td, int fd, int64_t timeout_ms)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    for (int64_t waited_ms = 0; waited_ms < timeout_ms; waited_ms += NAP_MS) {
        if (td->terminate)
            return -EINTR;
        const int ready = poll(&waiting, 1, NAP_MS);
        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
    return 0;
}

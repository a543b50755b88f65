// SPDX-License-Identifier: BSD-3-Clause
#include "conn.hpp"

#include <algorithm>
#include <cstring>

#include "boundary.hpp"
#include "log.hpp"
#include "peer_cfg.hpp"
#include "probe.hpp"
#include "rdma/work_request.hpp"

using namespace rpma;

namespace
{

rpma_conn_event to_conn_event(rdma_cm_event_type event)
{
    switch (event) {
    case RDMA_CM_EVENT_ESTABLISHED:
        return RPMA_CONN_ESTABLISHED;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return RPMA_CONN_LOST;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return RPMA_CONN_CLOSED;
    case RDMA_CM_EVENT_REJECTED:
        return RPMA_CONN_REJECTED;
    case RDMA_CM_EVENT_UNREACHABLE:
        return RPMA_CONN_UNREACHABLE;
    default:
        return RPMA_CONN_UNDEFINED;
    }
}

} // namespace

rpma_conn::rpma_conn(conn_parts &&parts, class flush &&flush, class private_data &&data)
    : targets_{parts.id->qp, flush.native(), nullptr}, device_{parts.id->qp, flush.native(), nullptr},
      parts_(std::move(parts)), flush_(std::move(flush)), private_data_(std::move(data))
{
    parts_.cq.set_batch(batch_);
    parts_.rcq.set_batch(batch_);
    if ((parts_.native_ops & rdma::send_op_atomic_write) == 0)
        return;
    ibv_qp_ex *const qpx = rdma::extended(qp());
    if (qpx == nullptr || qpx->wr_atomic_write == nullptr)
        return;
    targets_.atomic_write = device_.atomic_write = qpx;
    // The read that emulates a flush may be overtaken unless the atomic write waits for it.
    native_atomic_write_flags_ = flush_.native() == nullptr ? IBV_SEND_FENCE : 0;
}

rpma_conn::~rpma_conn()
{
    const errno_guard keep_errno;
    (void)close();
}

errc rpma_conn::close()
{
    if (parts_.qp)
        STATIC_PROBE(librpma, conn_delete, 1, parts_.id->qp->qp_num);
    delete batch_.exchange(nullptr);
    // The queue pair is destroyed first: outstanding reads need their registered target.
    first_error failures;
    failures.add(parts_.qp.close());
    failures.add(flush_.close());
    failures.add(parts_.close());
    return failures.finish();
}

errc rpma_conn::connect(const rpma_conn_private_data *pdata)
{
    STATIC_PROBE(librpma, connect, 1, parts_.id->qp->qp_num);
    return rdma::connect(parts_.id, pdata, parts_.retries);
}

errc rpma_conn::accept(const rpma_conn_private_data *pdata)
{
    STATIC_PROBE(librpma, accept, 1, parts_.id->qp->qp_num);
    accept_state_ = accept_state::accepted;
    RPMA_RETURN_IF_ERROR(rdma::accept(parts_.id, pdata));
    parts_.reject_on_close = false;
    return errc::ok;
}

errc rpma_conn::disconnect()
{
    // Queued operations complete with an error, like posted ones.
    (void)submit();
    STATIC_PROBE(librpma, disconnect, 1, parts_.id->qp->qp_num);
    (void)transition(accept_state::accepted, accept_state::left_early);
    RPMA_RETURN_IF_ERROR(rdma::disconnect(parts_.id));
    RPMA_LOG_NOTICE("disconnecting\n");
    return errc::ok;
}

errc rpma_conn::next_event(rpma_conn_event *event)
{
    if (transition(accept_state::closed_early, accept_state::reported)) {
        *event = RPMA_CONN_CLOSED;
        RPMA_LOG_NOTICE("%s\n", rpma_utils_conn_event_2str(*event));
        STATIC_PROBE(librpma, conn_event, 2, parts_.id->qp->qp_num, *event);
        return errc::ok;
    }
    RPMA_ASSIGN_OR_RETURN(rdma_cm_event *const cm_event, rdma::next_event(parts_.event_channel));
    const rdma_cm_event_type type = cm_event->event;

    // The accepting side keeps the private data of the request.
    class private_data data;
    if (type == RDMA_CM_EVENT_ESTABLISHED && private_data_.empty()) {
        auto copied =
                rpma::private_data::copy(cm_event->param.conn.private_data, cm_event->param.conn.private_data_len);
        if (!copied.ok()) {
            (void)rdma::acknowledge(parts_.event_channel, cm_event);
            return copied.error();
        }
        data = std::move(copied.value());
    }
    RPMA_RETURN_IF_ERROR(rdma::acknowledge(parts_.event_channel, cm_event));
    if (!data.empty())
        private_data_ = std::move(data);

    rpma_conn_event mapped = to_conn_event(type);
    const bool stood = type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_DISCONNECTED;
    if (stood && transition(accept_state::left_early, accept_state::reported)) {
        (void)rdma::disconnect(parts_.id); // possible after RPMA_CONN_ESTABLISHED
    } else if (mapped == RPMA_CONN_ESTABLISHED) {
        (void)transition(accept_state::accepted, accept_state::reported);
    } else if (type == RDMA_CM_EVENT_DISCONNECTED && transition(accept_state::accepted, accept_state::closed_early)) {
        mapped = RPMA_CONN_ESTABLISHED;
        // Sends the response that the peer waits for. The event makes the descriptor readable for the next call.
        (void)rdma::disconnect(parts_.id);
    }
    if (mapped == RPMA_CONN_UNDEFINED) {
        RPMA_LOG_WARNING("connection: unexpected event %s\n", rdma::event_name(type));
        return errc::unknown;
    }
    RPMA_LOG_NOTICE("%s\n", rpma_utils_conn_event_2str(mapped));
    *event = mapped;
    STATIC_PROBE(librpma, conn_event, 2, parts_.id->qp->qp_num, *event);
    return errc::ok;
}

result<rpma_conn::completion> rpma_conn::wait()
{
    if (!parts_.shared_channel)
        return errc::not_shared_channel;
    // Without this, the caller could wait for operations that are only queued.
    if (submit() != 0)
        return errc::provider;
    RPMA_ASSIGN_OR_RETURN(ibv_cq *const fired, rdma::next_completion_event(parts_.shared_channel.get()));
    completion found{};
    if (fired == parts_.cq.handle()) {
        found = {&parts_.cq, false};
    } else if (fired == parts_.rcq.handle()) {
        found = {&parts_.rcq, true};
    } else {
        RPMA_LOG_ERROR("rpma_conn_wait: completion event of another connection\n");
        return errc::unknown;
    }
    RPMA_RETURN_IF_ERROR(rdma::arm_cq(fired));
    return found;
}

rdma::batch *rpma_conn::queueing_batch()
{
    if (rdma::batch *const created = batch_.load(); created != nullptr)
        return created;
    auto *const created = new rdma::batch(targets_, device_);
    rdma::batch *before = nullptr;
    if (created == nullptr || batch_.compare_exchange_strong(before, created))
        return created;
    delete created; // another thread was faster
    return before;
}

void rpma_conn::set_direct_write_to_pmem(bool supported)
{
    flush_types_.store(RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | (supported ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : 0U),
            std::memory_order_relaxed);
}

extern "C" {

int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd)
{
    if (conn == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = conn->event_fd();
    return 0;
}

int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
    if (conn == nullptr || event == nullptr)
        return RPMA_E_INVAL;
    return to_int(conn->next_event(event));
}

const char *rpma_utils_conn_event_2str(enum rpma_conn_event conn_event)
{
    switch (conn_event) {
    case RPMA_CONN_UNDEFINED:
        return "Undefined connection event";
    case RPMA_CONN_ESTABLISHED:
        return "Connection established";
    case RPMA_CONN_CLOSED:
        return "Connection closed";
    case RPMA_CONN_LOST:
        return "Connection lost";
    case RPMA_CONN_REJECTED:
        return "Connection rejected";
    case RPMA_CONN_UNREACHABLE:
        return "Connection unreachable";
    default:
        return "Unsupported connection event";
    }
}

int rpma_conn_get_private_data(const struct rpma_conn *conn, struct rpma_conn_private_data *pdata)
{
    if (conn == nullptr || pdata == nullptr)
        return RPMA_E_INVAL;
    *pdata = conn->private_data();
    return 0;
}

int rpma_conn_apply_remote_peer_cfg(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg)
{
    if (conn == nullptr || pcfg == nullptr)
        return RPMA_E_INVAL;
    conn->set_direct_write_to_pmem(pcfg->direct_write_to_pmem.load());
    return 0;
}

int rpma_conn_get_qp_num(const struct rpma_conn *conn, uint32_t *qp_num)
{
    if (conn == nullptr || qp_num == nullptr)
        return RPMA_E_INVAL;
    *qp_num = conn->qp_num();
    return 0;
}

int rpma_conn_get_native_flush(const struct rpma_conn *conn, bool *native)
{
    if (conn == nullptr || native == nullptr)
        return RPMA_E_INVAL;
    *native = conn->flush().native() != nullptr;
    return 0;
}

int rpma_conn_get_counters(const struct rpma_conn *conn, struct rpma_conn_counters *counters, size_t size)
{
    if (conn == nullptr || counters == nullptr || size == 0)
        return RPMA_E_INVAL;
    const rpma_conn_counters counted = conn->counters().read();
    std::memset(counters, 0, size);
    std::memcpy(counters, &counted, std::min(size, sizeof(counted)));
    return 0;
}

int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr)
{
    if (conn == nullptr || cq_ptr == nullptr)
        return RPMA_E_INVAL;
    // The const_cast permits the caller to use the queue. The connection keeps the ownership.
    *cq_ptr = const_cast<rpma_conn *>(conn)->cq();
    return 0;
}

int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr)
{
    if (conn == nullptr || rcq_ptr == nullptr)
        return RPMA_E_INVAL;
    *rcq_ptr = const_cast<rpma_conn *>(conn)->rcq();
    return 0;
}

int rpma_conn_disconnect(struct rpma_conn *conn)
{
    if (conn == nullptr)
        return RPMA_E_INVAL;
    return to_int(conn->disconnect());
}

int rpma_conn_submit(struct rpma_conn *conn)
{
    if (conn == nullptr)
        return RPMA_E_INVAL;
    return conn->submit();
}

int rpma_conn_delete(struct rpma_conn **conn_ptr)
{
    return close_and_delete(conn_ptr);
}

int rpma_conn_get_compl_fd(const struct rpma_conn *conn, int *fd)
{
    if (conn == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    if (conn->shared_channel() == nullptr)
        return RPMA_E_NOT_SHARED_CHNL;
    *fd = conn->shared_channel()->fd;
    return 0;
}

int rpma_conn_wait(struct rpma_conn *conn, int, struct rpma_cq **cq, bool *is_rcq)
{
    if (conn == nullptr || cq == nullptr)
        return RPMA_E_INVAL;
    auto completed = conn->wait();
    if (!completed.ok())
        return to_int(completed.error());
    *cq = completed.value().cq;
    if (is_rcq != nullptr)
        *is_rcq = completed.value().is_rcq;
    return 0;
}

} // extern "C"

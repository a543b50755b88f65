// SPDX-License-Identifier: BSD-3-Clause
#include "net/cm.hpp"
#include "net/listener.hpp"
#include "net/settings.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::net::cm
{

namespace
{

constexpr std::uint32_t invalid_service_id = 8;
constexpr std::uint32_t consumer_defined = 28;
constexpr std::uint8_t device_maximum = 255; // RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH
constexpr std::uint8_t max_retry = 7;

bool random_bytes(void *to, std::size_t size)
{
    return getrandom(to, size, 0) == static_cast<ssize_t>(size);
}

bool too_deep(std::uint8_t depth)
{
    return depth != device_maximum && depth > limits::max_reads;
}

std::uint8_t granted(std::uint8_t asked, std::uint8_t peer = device_maximum)
{
    return static_cast<std::uint8_t>(std::min<int>({asked, peer, limits::max_reads}));
}

// Fills id.local from the program's parameters. 0 or an errno value.
int prepare_handshake(cm_id &id, const rdma_conn_param &param, std::size_t field)
{
    const std::size_t visible = settings().exact_private_data ? param.private_data_len : field;
    if (param.private_data_len > field || too_deep(param.responder_resources) || too_deep(param.initiator_depth) ||
            !id.local.data.assign(param.private_data, param.private_data_len, visible))
        return EINVAL;
    id.local.qpn = id.qp != nullptr ? id.qp->qp_num : param.qp_num;
    id.local.responder_resources = granted(param.responder_resources);
    id.local.initiator_depth = granted(param.initiator_depth);
    id.local.flow_control = param.flow_control;
    id.local.retry_count = std::min(param.retry_count, max_retry);
    id.local.rnr_retry_count = std::min(param.rnr_retry_count, max_retry);
    id.local.srq = id.qp != nullptr ? id.qp->srq != nullptr : param.srq;
    if (!random_bytes(&id.local.psn, sizeof(id.local.psn)))
        return EAGAIN;
    id.local.psn &= psn_mask;
    return 0;
}

void join(cm_id &id, const std::shared_ptr<queue_pair> &qp)
{
    id.path->bind(qp, id.local.qpn);
    qp->attach(id.path);
}

void rejected(cm_id &id, std::uint32_t reason, const private_data &data)
{
    detail::modify_to_error(id);
    id.state = cm_state::closed;
    detail::queue_event(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(reason), &data);
}

void unreachable(cm_id &id, int error)
{
    detail::modify_to_error(id);
    id.state = cm_state::closed;
    detail::queue_event(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

void start_connecting(cm_id &id);

void try_again(std::uint64_t serial)
{
    const std::lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::connecting)
        return;
    if (detail::open_bound(*id, &id->route.addr.src_addr) != 0)
        return unreachable(*id, errno);
    start_connecting(*id);
}

// A network takes milliseconds where loopback takes microseconds: programs that listen anew for each connection
// of the same peer rely on that.
void refused(cm_id &id)
{
    constexpr int tries = 5;
    constexpr auto pause = std::chrono::milliseconds(10);
    id.path.reset();
    if (++id.refusals >= tries)
        return rejected(id, invalid_service_id, {.size = reject_private_size});
    agent::get()->after(pause, [serial = id.serial] { try_again(serial); });
}

void start_connecting(cm_id &id)
{
    sockaddr_storage destination = id.route.addr.dst_storage;
    detail::to_tcp(destination);
    const int fd = std::exchange(id.socket, -1);
    const auto *to = reinterpret_cast<const sockaddr *>(&destination);
    id.state = cm_state::connecting;
    if (::connect(fd, to, detail::address_size(to)) != 0 && errno != EINPROGRESS) {
        const int error = errno;
        ::close(fd);
        return error == ECONNREFUSED ? refused(id) : unreachable(id, error);
    }
    id.path = link::open(fd, link::role::connecting);
    const auto qp = queue_pair::find(id.local.qpn);
    if (id.path == nullptr || qp == nullptr)
        return unreachable(id, id.path == nullptr ? errno : EINVAL);
    id.path->owner = &id;
    join(id, qp);
}

void give_up_unanswered(std::uint64_t serial)
{
    const std::lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::connecting)
        return;
    if (id->path != nullptr) {
        id->path->owner = nullptr;
        id->path->finish();
    }
    unreachable(*id, ETIMEDOUT);
}

void give_up_unconfirmed(std::uint64_t serial)
{
    const std::lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::accepted)
        return;
    id->path->owner = nullptr;
    id->path->finish();
    unreachable(*id, ETIMEDOUT);
}

void take_request(cm_id &parent, const std::shared_ptr<link> &path, const cm_handshake &request)
{
    cm_id *child = detail::new_id(parent.events(), parent.context, parent.ps);
    child->state = cm_state::requested;
    child->path = path;
    child->remote = request;
    // What the peer offers to initiate is what this side has to respond to, and the reverse.
    child->request.responder_resources = request.initiator_depth;
    child->request.initiator_depth = request.responder_resources;
    child->request.flow_control = request.flow_control;
    child->request.retry_count = request.retry_count;
    child->request.rnr_retry_count = request.rnr_retry_count;
    child->request.srq = request.srq;
    child->request.qp_num = request.qpn;
    path->owner = child;
    detail::learn_addresses(*child, path->fd());
    if (detail::adopt_device(*child) != 0)
        return detail::discard(child);
    detail::queue_request(parent, *child);
}

} // namespace

void detail::send(cm_id &id, opcode op, const cm_payload *payload)
{
    if (id.path == nullptr)
        return;
    iovec piece{};
    if (payload != nullptr)
        piece = {const_cast<std::byte *>(payload->bytes.data()), payload->size};
    id.path->transmit({.op = op}, {&piece, 1});
}

int listen(cm_id &id)
{
    const std::lock_guard guard(lock());
    if (id.state != cm_state::bound)
        return detail::fail(EINVAL);
    id.listening = listener::open(std::exchange(id.socket, -1), id.serial);
    if (id.listening == nullptr)
        return -1;
    id.state = cm_state::listening;
    return 0;
}

void incoming(std::uint64_t listener_serial, int socket)
{
    const std::lock_guard guard(lock());
    const auto path = link::open(socket, link::role::accepted);
    if (path == nullptr)
        return;
    path->listener_serial = listener_serial;
    // A stranger that never asks for anything must not keep a descriptor.
    agent::get()->after(settings().response_timeout, [weak = std::weak_ptr(path)] {
        const std::lock_guard relock(lock());
        if (const auto waiting = weak.lock(); waiting != nullptr && waiting->owner == nullptr)
            waiting->finish();
    });
}

int connect(cm_id &id, const rdma_conn_param *param)
{
    const std::lock_guard guard(lock());
    rdma_conn_param standard{};
    standard.retry_count = standard.rnr_retry_count = max_retry;
    if (id.state != cm_state::route_resolved || (param == nullptr && id.qp == nullptr))
        return detail::fail(EINVAL);
    if (const int error = prepare_handshake(id, param != nullptr ? *param : standard, request_private_size); error != 0)
        return detail::fail(error);
    if (queue_pair::find(id.local.qpn) == nullptr || !random_bytes(id.local.key.data(), id.local.key.size()))
        return detail::fail(EINVAL);
    agent::get()->after(settings().response_timeout, [serial = id.serial] { give_up_unanswered(serial); });
    start_connecting(id);
    return 0;
}

void path_connected(const std::shared_ptr<link> &path)
{
    const std::lock_guard guard(lock());
    if (path->owner == nullptr)
        return;
    const cm_payload payload = encode(path->owner->local);
    detail::send(*path->owner, opcode::cm_request, &payload);
}

int accept(cm_id &id, const rdma_conn_param *param)
{
    const std::lock_guard guard(lock());
    if (id.state != cm_state::requested || (param == nullptr && id.qp == nullptr))
        return detail::fail(EINVAL);
    const int error = prepare_handshake(id, param != nullptr ? *param : id.request, reply_private_size);
    const auto qp = queue_pair::find(id.local.qpn);
    if (error != 0 || qp == nullptr)
        return detail::fail(error != 0 ? error : EINVAL);
    id.local.responder_resources = granted(id.local.responder_resources, id.remote.initiator_depth);
    id.local.initiator_depth = granted(id.local.initiator_depth, id.remote.responder_resources);
    id.local.key = id.remote.key;
    join(id, qp);
    if (id.qp != nullptr && detail::modify_to_connected(id) != 0)
        return -1;
    id.state = cm_state::accepted;
    const cm_payload payload = encode(id.local);
    detail::send(id, opcode::cm_reply, &payload);
    agent::get()->after(settings().response_timeout, [serial = id.serial] { give_up_unconfirmed(serial); });
    return 0;
}

int reject(cm_id &id, const void *data, std::uint8_t length)
{
    const std::lock_guard guard(lock());
    cm_rejection rejection{.reason = consumer_defined, .data = {}};
    if (id.state != cm_state::requested ||
            !rejection.data.assign(data, length, settings().exact_private_data ? length : reject_private_size))
        return detail::fail(EINVAL);
    const cm_payload payload = encode(rejection);
    detail::send(id, opcode::cm_reject, &payload);
    id.state = cm_state::closed;
    id.path->owner = nullptr;
    id.path->finish();
    return 0;
}

int establish(cm_id &id)
{
    const std::lock_guard guard(lock());
    if (id.qp != nullptr || id.state != cm_state::replied)
        return detail::fail(EINVAL);
    id.state = cm_state::connected;
    detail::send(id, opcode::cm_ready);
    id.path->unhold();
    return 0;
}

int notify(cm_id &id, ibv_event_type event)
{
    const std::lock_guard guard(lock());
    if (event != IBV_EVENT_COMM_EST)
        return detail::fail(EINVAL);
    if (id.state == cm_state::accepted) {
        id.state = cm_state::connected;
        detail::queue_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    return id.state == cm_state::connected ? 0 : detail::fail(EINVAL);
}

bool received(const std::shared_ptr<link> &path, const packet &p)
{
    const std::lock_guard guard(lock());
    cm_id *id = path->owner;
    cm_handshake handshake;
    if (p.op == opcode::cm_request) {
        cm_id *parent = detail::find_id(std::exchange(path->listener_serial, 0));
        if (id != nullptr || parent == nullptr || parent->state != cm_state::listening || !decode(p.payload, handshake))
            return false;
        take_request(*parent, path, handshake);
        return true;
    }
    if (id == nullptr)
        return false;
    if (p.op == opcode::cm_reply) {
        if (id->state != cm_state::connecting || !decode(p.payload, handshake) || handshake.key != id->local.key)
            return false;
        id->remote = handshake;
        id->state = cm_state::replied;
        path->hold();
        detail::queue_event(*id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &handshake.data);
        return true;
    }
    if (p.op == opcode::cm_ready) {
        if (id->state == cm_state::accepted) {
            id->state = cm_state::connected;
            detail::queue_event(*id, RDMA_CM_EVENT_ESTABLISHED, 0);
        }
        return true;
    }
    if (p.op == opcode::cm_reject) {
        cm_rejection rejection;
        if ((id->state != cm_state::connecting && id->state != cm_state::accepted) || !decode(p.payload, rejection))
            return false;
        path->owner = nullptr;
        path->finish();
        rejected(*id, rejection.reason, rejection.data);
        return true;
    }
    return detail::received_disconnect(*id, p.op);
}

void path_lost(const std::shared_ptr<link> &path, int error)
{
    const std::lock_guard guard(lock());
    cm_id *id = std::exchange(path->owner, nullptr);
    if (id == nullptr)
        return;
    switch (id->state) {
    case cm_state::connecting:
        // Once TCP was up, a passive side that goes away has turned the request down.
        if (error == ECONNREFUSED)
            refused(*id);
        else if (error == ECONNRESET || error == EPIPE)
            rejected(*id, consumer_defined, {.size = reject_private_size});
        else
            unreachable(*id, error);
        break;
    case cm_state::requested:
        id->state = cm_state::closed;
        break;
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        id->state = cm_state::disconnect_received;
        detail::queue_event(*id, RDMA_CM_EVENT_DISCONNECTED, 0);
        break;
    case cm_state::disconnect_sent:
        detail::disconnected(*id, 0);
        break;
    default:
        break;
    }
}

} // namespace softrdma::net::cm

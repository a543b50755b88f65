// SPDX-License-Identifier: BSD-3-Clause
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "progress/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::net::cm
{

namespace
{

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
int prepare_handshake(cm_id &id, const rdma_conn_param &param, std::size_t field) REQUIRES(lock())
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
    return detail::choose_psn(id) ? 0 : EAGAIN;
}

void join(cm_id &id, const std::shared_ptr<queue_pair> &qp) REQUIRES(lock())
{
    id.path->bind(qp, id.local.qpn);
    qp->attach(id.path);
    if (id.ack_timeout)
        qp->limit_answers();
}

void start_connecting(cm_id &id) REQUIRES(lock());

void try_again(std::uint64_t serial)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::connecting)
        return;
    // Somebody else may have got the port in the meantime.
    bool bound = detail::open_bound(*id, &id->route.addr.src_addr) == 0;
    if (!bound && errno == EADDRINUSE && id->any_port) {
        port_of(id->route.addr.src_storage) = 0;
        bound = detail::open_bound(*id, &id->route.addr.src_addr) == 0;
    }
    if (!bound)
        return detail::unreachable(*id, errno);
    start_connecting(*id);
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
        return error == ECONNREFUSED ? detail::refused(id) : detail::unreachable(id, error);
    }
    try {
        id.path = tcp_conn::open(fd, tcp_conn::role::connecting, upcalls());
    } catch (const std::bad_alloc &) {
        return detail::unreachable(id, ENOMEM);
    }
    if (id.path == nullptr)
        return detail::unreachable(id, errno);
    id.path->owner = &id;
    if (detail::is_datagram(id))
        return;
    const auto qp = queue_pair::find(id.local.qpn);
    if (qp == nullptr)
        return detail::unreachable(id, EINVAL);
    join(id, qp);
}

void give_up_unanswered(std::uint64_t serial)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::connecting)
        return;
    if (id->path != nullptr) {
        id->path->owner = nullptr;
        id->path->finish();
    }
    detail::unreachable(*id, ETIMEDOUT);
}

void give_up_unconfirmed(std::uint64_t serial)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::accepted)
        return;
    id->path->owner = nullptr;
    id->path->finish();
    detail::unreachable(*id, ETIMEDOUT);
}

void reply_later(std::uint64_t serial, discovery::shm_ep_ptr found)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || !id->discovering || id->state != cm_state::accepted)
        return;
    id->ep = std::move(found);
    id->obstacle = local::obstacle::refused;
    if (id->ep != nullptr || !discovery::required())
        return detail::reply(*id);
    id->discovering = false;
    id->path->owner = nullptr;
    id->path->finish();
    detail::unreachable(*id, EHOSTUNREACH);
}

} // namespace

bool detail::choose_psn(cm_id &id)
{
    if (id.psn_chosen)
        return true;
    id.psn_chosen = random_bytes(&id.local.psn, sizeof(id.local.psn));
    id.local.psn &= psn_mask;
    return id.psn_chosen;
}

void detail::rejected(cm_id &id, std::uint32_t reason, const private_data &data)
{
    if (is_datagram(id))
        return not_resolved(id, reason);
    modify_to_error(id);
    id.state = cm_state::closed;
    queue_event(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(reason), &data);
}

void detail::unreachable(cm_id &id, int error)
{
    modify_to_error(id);
    id.state = cm_state::closed;
    queue_event(id, RDMA_CM_EVENT_UNREACHABLE, -error);
}

// A network takes milliseconds where loopback takes microseconds: programs that listen anew for each connection
// of the same peer rely on that. On a busy machine they take longer, too.
void detail::refused(cm_id &id)
{
    constexpr int tries = 5;
    constexpr auto first_pause = std::chrono::milliseconds(10);
    id.path.reset();
    const auto pause = first_pause * (1 << id.refusals);
    if (++id.refusals >= tries)
        return rejected(id, reject_reason::invalid_service_id, {.size = reject_private_size});
    event_loop::get()->after(pause, [serial = id.serial] { try_again(serial); });
}

void detail::send(cm_id &id, opcode op, std::span<const std::byte> payload)
{
    if (id.path != nullptr)
        id.path->tell(op, payload);
}

void detail::send_ready(cm_id &id)
{
    send(id, opcode::cm_ready, encode(shm_decision{id.ep != nullptr, id.obstacle}));
    id.ep.reset();
}

void detail::reply(cm_id &id)
{
    if (id.ep == nullptr) {
        id.local.shm_address = {};
        id.local.shm_address.why_absent = id.obstacle;
        log_fall_back(id);
    }
    const bool looked = std::exchange(id.discovering, false);
    if (const auto qp = queue_pair::find(id.local.qpn); qp != nullptr) {
        if (id.ep != nullptr)
            qp->expect(id.ep);
        else if (looked)
            qp->select_transport(nullptr);
        if (id.ep == nullptr)
            qp->note_obstacle(id.obstacle);
    }
    send(id, opcode::cm_reply, encode(id.local));
}

void detail::stop_looking(cm_id &id)
{
    if (id.discovering && id.state == cm_state::accepted)
        reply(id);
    id.discovering = false;
}

int listen(cm_id &id, int backlog)
{
    constexpr unsigned max_backlog = 1024; // the kernel's default
    const lock_guard guard(lock());
    const sockaddr_in any{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {INADDR_ANY}, .sin_zero = {}};
    if (id.state == cm_state::idle && detail::open_bound(id, reinterpret_cast<const sockaddr *>(&any)) != 0)
        return -1;
    if (id.state != cm_state::bound)
        return detail::fail(EINVAL);
    id.backlog = backlog > 0 ? std::min(static_cast<unsigned>(backlog), max_backlog) : max_backlog;
    id.listening = listener::open(std::exchange(id.socket, -1), SOMAXCONN,
            [serial = id.serial](int socket) { return detail::incoming(serial, socket); });
    if (id.listening == nullptr)
        return -1;
    id.state = cm_state::listening;
    return 0;
}

int connect(cm_id &id, const rdma_conn_param *param)
{
    const lock_guard guard(lock());
    rdma_conn_param standard{};
    standard.retry_count = standard.rnr_retry_count = max_retry;
    const bool datagrams = detail::is_datagram(id);
    if (id.state != cm_state::route_resolved || (param == nullptr && id.qp == nullptr && !datagrams))
        return detail::fail(EINVAL);
    if (datagrams && detail::ask(id, param) != 0)
        return -1;
    const auto &chosen = param != nullptr ? *param : standard;
    const int error = datagrams ? 0 : prepare_handshake(id, chosen, request_private_size);
    if (error != 0)
        return detail::fail(error);
    if ((!datagrams && queue_pair::find(id.local.qpn) == nullptr) ||
            !random_bytes(id.local.key.data(), id.local.key.size()))
        return detail::fail(EINVAL);
    event_loop::get()->after(settings().response_timeout, [serial = id.serial] { give_up_unanswered(serial); });
    start_connecting(id);
    return 0;
}

int accept(cm_id &id, const rdma_conn_param *param)
{
    const lock_guard guard(lock());
    if (id.state != cm_state::requested || (param == nullptr && id.qp == nullptr))
        return detail::fail(EINVAL);
    if (detail::is_datagram(id))
        return detail::tell_number(id, param);
    const int error = prepare_handshake(id, param != nullptr ? *param : id.request, reply_private_size);
    const auto qp = queue_pair::find(id.local.qpn);
    if (error != 0 || qp == nullptr)
        return detail::fail(error != 0 ? error : EINVAL);
    id.local.responder_resources = granted(id.local.responder_resources, id.remote.initiator_depth);
    id.local.initiator_depth = granted(id.local.initiator_depth, id.remote.responder_resources);
    id.local.key = id.remote.key;
    join(id, qp);
    id.local.shm_address = discovery::own_shm_address(*qp, *id.path);
    id.discovering = discovery::reach(id.remote.shm_address, *id.path, id.ep, id.obstacle,
            [serial = id.serial](discovery::shm_ep_ptr found) { reply_later(serial, std::move(found)); });
    if (!id.discovering && id.ep == nullptr && discovery::required())
        return detail::fail(EHOSTUNREACH);
    if (id.discovering || id.ep != nullptr)
        qp->suspend();
    if (id.qp != nullptr && detail::modify_to_connected(id) != 0)
        return -1;
    id.state = cm_state::accepted;
    if (!id.discovering)
        detail::reply(id);
    event_loop::get()->after(settings().response_timeout, [serial = id.serial] { give_up_unconfirmed(serial); });
    return 0;
}

int reject(cm_id &id, std::uint32_t reason, const void *data, std::uint8_t length)
{
    const lock_guard guard(lock());
    cm_rejection rejection{.reason = reason, .data = {}};
    if (id.state != cm_state::requested ||
            !rejection.data.assign(data, length, settings().exact_private_data ? length : reject_private_size))
        return detail::fail(EINVAL);
    detail::send(id, opcode::cm_reject, encode(rejection));
    id.state = cm_state::closed;
    id.path->owner = nullptr;
    id.path->finish();
    return 0;
}

int establish(cm_id &id)
{
    const lock_guard guard(lock());
    if (id.qp != nullptr || id.state != cm_state::replied)
        return detail::fail(EINVAL);
    id.state = cm_state::connected;
    detail::send_ready(id);
    id.path->unhold();
    return 0;
}

int notify(cm_id &id, ibv_event_type event)
{
    const lock_guard guard(lock());
    if (event != IBV_EVENT_COMM_EST)
        return detail::fail(EINVAL);
    if (id.state == cm_state::accepted) {
        detail::stop_looking(id);
        id.state = cm_state::connected;
        detail::queue_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    return id.state == cm_state::connected ? 0 : detail::fail(EINVAL);
}

} // namespace softrdma::net::cm

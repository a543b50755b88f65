// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/cm_roce.hpp"
#include "cm/roce_connect.hpp"
#include "progress/listener.hpp"
#include "verbs/number_table.hpp"
#include "wire/cm_mad.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::cm
{

namespace
{

constexpr std::uint8_t device_maximum = 255; // RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH
constexpr std::uint8_t max_retry = 7;

bool random_bytes(void *to, std::size_t size)
{
    return getrandom(to, size, 0) == static_cast<ssize_t>(size);
}

bool is_too_deep(std::uint8_t depth)
{
    return depth != device_maximum && depth > limits::max_reads;
}

std::uint8_t granted(std::uint8_t requested, std::uint8_t peer = device_maximum)
{
    return static_cast<std::uint8_t>(std::min<int>({requested, peer, limits::max_reads}));
}

int prepare_handshake(cm_id &id, const rdma_conn_param &param, std::size_t field) REQUIRES(lock())
{
    const std::size_t visible = settings().exact_private_data ? param.private_data_len : field;
    if (param.private_data_len > field || is_too_deep(param.responder_resources) ||
            is_too_deep(param.initiator_depth) ||
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

// Finds the queue pair of the number that the program has given. It is absent in programs that test connections only.
void find_local_qp(cm_id &id) REQUIRES(lock())
{
    const auto qp = number_table::instance().find(id.local.qpn);
    id.local_qp = qp;
    if (qp != nullptr && id.ack_timeout)
        qp->set_response_limit();
}

void start_connecting(cm_id &id) REQUIRES(lock());

void try_again(std::uint64_t serial)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || id->state != cm_state::connecting)
        return;
    if (roce_connect::is_selected()) {
        const int error = over_roce::request(*id);
        return error == 0 ? void() : detail::unreachable(*id, error);
    }
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
    id.state = cm_state::connecting;
    detail::share_port(id.socket);
    const int error = id.open_path(unique_fd(std::exchange(id.socket, -1)), destination);
    if (error == ECONNREFUSED)
        return detail::retry_or_reject(id);
    if (error != 0)
        return detail::unreachable(id, error);
    if (!detail::is_datagram(id))
        id.join();
    id.begin();
}

// Fails the connection attempt unless the peer responds in time; until then the id is in the state `waiting`.
void fail_on_timeout(const cm_id &id, cm_state waiting) REQUIRES(lock())
{
    event_loop::get()->after(settings().response_timeout, [serial = id.serial, waiting] {
        const lock_guard guard(lock());
        cm_id *silent = detail::find_id(serial);
        if (silent == nullptr || silent->state != waiting || silent->link != nullptr)
            return;
        silent->end_path();
        detail::unreachable(*silent, ETIMEDOUT);
    });
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

void detail::send_ready(cm_id &id)
{
    if (id.link != nullptr)
        over_roce::ready(id);
    else
        id.send_decision(opcode::cm_ready);
}

void detail::send_rejection(cm_id &id, const cm_rejection &rejection)
{
    if (id.link != nullptr)
        over_roce::reject(id, rejection);
    else if (id.path != nullptr)
        id.path->send_control(opcode::cm_reject, encode(rejection));
}

void detail::rejected(cm_id &id, std::uint32_t reason, const private_data &data)
{
    log::write(log::level::info, "peer %s: connection rejected: reason %u", text_of(id.route.addr.dst_storage).data(),
            reason);
    over_roce::leave(id);
    if (is_datagram(id))
        return not_resolved(id, reason == reject_reason::invalid_service_id ? roce::resolve_status::service_unknown
                                                                            : roce::resolve_status::rejected);
    modify_to_error(id);
    id.state = cm_state::closed;
    queue_last_event(id, RDMA_CM_EVENT_REJECTED, static_cast<int>(reason), true, &data);
}

void detail::unreachable(cm_id &id, int error)
{
    log::write(
            log::level::warn, "peer %s: not reachable: %s", text_of(id.route.addr.dst_storage).data(), strerror(error));
    over_roce::leave(id);
    modify_to_error(id);
    id.state = cm_state::closed;
    queue_last_event(id, RDMA_CM_EVENT_UNREACHABLE, -error, true);
}

// Reports a refused connection after some attempts. Programs that reopen their listener for each connection depend on
// the milliseconds that a network takes, and take longer on a busy machine.
void detail::retry_or_reject(cm_id &id)
{
    constexpr int tries = 5;
    constexpr auto first_pause = std::chrono::milliseconds(10);
    SOFTRDMA_ASSERT(id.rejections < tries || id.link != nullptr);
    id.path.reset();
    if (id.rejections == 0 && id.link == nullptr)
        over_roce::probe(id);
    const auto pause = first_pause * (1 << id.rejections);
    if (++id.rejections < tries)
        event_loop::get()->after(pause, [serial = id.serial] { try_again(serial); });
    else if (id.link != nullptr || !over_roce::follow_rejection(id))
        rejected(id, reject_reason::invalid_service_id, {.size = reject_private_size});
}

int listen(cm_id &id, int backlog)
{
    constexpr unsigned max_backlog = 1024; // the kernel's default
    const lock_guard guard(lock());
    if (id.lost_port) // a program that does not check the bind must not listen at a port that no client knows
        return detail::fail(EADDRINUSE);
    const sockaddr_in any{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {INADDR_ANY}, .sin_zero = {}};
    if (id.state == cm_state::idle && detail::open_bound(id, reinterpret_cast<const sockaddr *>(&any)) != 0)
        return -1;
    if (id.state != cm_state::bound)
        return detail::fail(EINVAL);
    if (detail::is_port_taken(id, id.route.addr.src_storage, false)) // a listener shares its port with no other id
        return detail::fail(EADDRINUSE);
    id.backlog = backlog > 0 ? std::min(static_cast<unsigned>(backlog), max_backlog) : max_backlog;
    if (roce_connect::is_selected() || (roce_connect::is_accepted() && !detail::is_datagram(id))) {
        if (const int error = over_roce::listen(id); error != 0)
            return detail::fail(error);
    }
    detail::share_port(id.socket);
    if (!roce_connect::is_selected()) { // otherwise the bound socket keeps the system from choosing its port for others
        id.listening = listener::open(std::exchange(id.socket, -1), SOMAXCONN,
                [serial = id.serial](int socket) { return handshake::accepted(socket, serial); });
        if (id.listening == nullptr) {
            over_roce::stop_listening(id);
            return -1;
        }
    }
    id.state = cm_state::listening;
    id.shares_port = false;
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
    if (datagrams && detail::prepare_resolve_request(id, param) != 0)
        return -1;
    const auto &chosen = param != nullptr ? *param : standard;
    const int error = datagrams ? 0 : prepare_handshake(id, chosen, request_private_size);
    if (error != 0)
        return detail::fail(error);
    if (!datagrams)
        find_local_qp(id);
    if (!random_bytes(id.local.key.data(), id.local.key.size()))
        return detail::fail(EINVAL);
    id.active = true;
    if (roce_connect::is_selected()) {
        const int failed = over_roce::request(id);
        return failed == 0 ? 0 : detail::fail(failed);
    }
    fail_on_timeout(id, cm_state::connecting);
    start_connecting(id);
    return 0;
}

int accept(cm_id &id, const rdma_conn_param *param)
{
    const lock_guard guard(lock());
    if (id.state != cm_state::requested || (param == nullptr && id.qp == nullptr))
        return detail::fail(EINVAL);
    if (detail::is_datagram(id))
        return detail::send_qpn(id, param);
    const int error = prepare_handshake(id, param != nullptr ? *param : id.request, reply_private_size);
    if (error != 0)
        return detail::fail(error);
    find_local_qp(id);
    id.local.responder_resources = granted(id.local.responder_resources, id.remote.initiator_depth);
    id.local.initiator_depth = granted(id.local.initiator_depth, id.remote.responder_resources);
    bool searched = false;
    if (id.link == nullptr) {
        fail_on_timeout(id, cm_state::accepted);
        id.local.key = id.remote.key;
        id.join();
        searched = id.search(id.remote.shm_address);
        if (searched && id.fails())
            return detail::fail(EHOSTUNREACH);
    } else if (const int failed = over_roce::join(id); failed != 0) {
        return detail::fail(failed);
    }
    if (id.qp != nullptr && detail::modify_to_connected(id) != 0)
        return -1;
    id.state = cm_state::accepted;
    if (id.link != nullptr) {
        over_roce::reply(id);
        return 0;
    }
    if (searched)
        id.respond();
    return 0;
}

int reject(cm_id &id, std::uint32_t reason, const void *data, std::uint8_t length)
{
    const lock_guard guard(lock());
    cm_rejection rejection{.reason = reason, .data = {}};
    if (id.state != cm_state::requested ||
            !rejection.data.assign(data, length, settings().exact_private_data ? length : reject_private_size))
        return detail::fail(EINVAL);
    detail::send_rejection(id, rejection);
    id.state = cm_state::closed;
    id.end_path();
    return 0;
}

int establish(cm_id &id)
{
    const lock_guard guard(lock());
    if (id.qp != nullptr || id.state != cm_state::replied)
        return detail::fail(EINVAL);
    id.state = cm_state::connected;
    detail::send_ready(id);
    return 0;
}

int notify(cm_id &id, ibv_event_type event)
{
    const lock_guard guard(lock());
    if (event != IBV_EVENT_COMM_EST)
        return detail::fail(EINVAL);
    if (id.state == cm_state::accepted) {
        id.stop_searching();
        id.state = cm_state::connected;
        detail::queue_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    return id.state == cm_state::connected ? 0 : detail::fail(EINVAL);
}

} // namespace softrdma::cm

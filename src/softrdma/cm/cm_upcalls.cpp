// SPDX-License-Identifier: BSD-3-Clause
// What connections tell the connection manager.
#include "cm/cm.hpp"
#include "cm/unknown_callers.hpp"
#include "fault/rules.hpp"
#include "progress/listener.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "transport/tcp/tcp_socket.hpp"

#include <cerrno>
#include <cstring>

namespace softrdma::net::cm
{

namespace
{

constexpr std::size_t max_waiting = 64;

// Of all listeners.
unknown_callers &callers()
{
    static constinit process::single<unknown_callers> all;
    return all.get();
}

void take_request(cm_id &parent, const std::shared_ptr<tcp_conn> &path, const cm_handshake &request) REQUIRES(lock())
{
    cm_id *child = detail::new_id(parent.events(), parent.context, parent.ps, parent.device);
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
    if (detail::adopt_device(*child) != 0 || !detail::choose_psn(*child) || !detail::queue_request(parent, *child))
        detail::discard(child);
}

// A device drops what exceeds the backlog, and its peer asks again: here the request waits instead. Each that waits
// holds a descriptor: beyond a fixed number the next ones are left to the kernel's queue.
void wait_in_turn(cm_id &parent, const std::shared_ptr<tcp_conn> &path, const cm_handshake &request) REQUIRES(lock())
{
    parent.waiting.emplace_back(path, request);
    if (parent.waiting.size() >= max_waiting)
        parent.listening->suspend();
}

void decide_later(std::uint64_t serial, discovery::shm_ep_ptr found)
{
    const lock_guard guard(lock());
    cm_id *id = detail::find_id(serial);
    if (id == nullptr || !std::exchange(id->discovering, false) || id->state != cm_state::connecting)
        return;
    id->ep = std::move(found);
    id->obstacle = local::obstacle::refused;
    detail::select_transport(*id);
}

void take_reply(cm_id &id, const cm_handshake &reply) REQUIRES(lock())
{
    id.remote = reply;
    id.path->hold();
    id.obstacle = reply.shm_address.why_absent;
    if (reply.shm_address.present || discovery::required())
        id.discovering = discovery::reach(reply.shm_address, *id.path, id.ep, id.obstacle,
                [serial = id.serial](discovery::shm_ep_ptr found) { decide_later(serial, std::move(found)); });
    if (!id.discovering)
        detail::select_transport(id);
}

// True if the message was made to fail.
bool injected(cm_id *id, const std::shared_ptr<tcp_conn> &path) REQUIRES(lock())
{
    const auto fault = fault::on_handshake();
    if (!fault)
        return false;
    if (*fault == fault::action::unreachable) // it was never heard
        return true;
    path->tell(opcode::cm_reject, encode(no_reason));
    path->owner = nullptr;
    path->finish();
    if (id != nullptr)
        detail::rejected(*id, no_reason.reason, no_reason.data);
    return true;
}

class conn_upcalls : public tcp_conn_user
{
public:
    void connected(const std::shared_ptr<tcp_conn> &path) override;
    void lost(const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<queue_pair> &qp, int error) override;
    bool received(const std::shared_ptr<tcp_conn> &path, const packet &p) override;
};

void conn_upcalls::connected(const std::shared_ptr<tcp_conn> &path)
{
    const lock_guard guard(lock());
    if (path->owner == nullptr)
        return;
    const bool datagrams = detail::is_datagram(*path->owner);
    if (const auto qp = queue_pair::find(path->owner->local.qpn); qp != nullptr && !datagrams)
        path->owner->local.shm_address = discovery::own_shm_address(*qp, *path);
    path->tell(datagrams ? opcode::resolve_request : opcode::cm_request, encode(path->owner->local));
}

bool conn_upcalls::received(const std::shared_ptr<tcp_conn> &path, const packet &p)
{
    const lock_guard guard(lock());
    cm_id *id = path->owner;
    cm_handshake handshake;
    const bool is_request = p.op == opcode::cm_request || p.op == opcode::resolve_request;
    const bool may_fail = is_request || p.op == opcode::cm_reply || p.op == opcode::resolve_reply;
    if (is_request && !callers().remove(path))
        return false;
    if (fault::active() && may_fail && injected(id, path)) [[unlikely]]
        return true;
    if (is_request) {
        cm_id *parent = detail::find_id(std::exchange(path->tag, 0));
        if (id != nullptr || parent == nullptr || parent->state != cm_state::listening ||
                detail::is_datagram(*parent) != (p.op == opcode::resolve_request) || !decode(p.payload, handshake))
            return false;
        if (parent->unseen >= parent->backlog)
            wait_in_turn(*parent, path, handshake);
        else
            take_request(*parent, path, handshake);
        return true;
    }
    if (id == nullptr)
        return false;
    if (p.op == opcode::cm_reply || p.op == opcode::resolve_reply) {
        if (id->state != cm_state::connecting || detail::is_datagram(*id) != (p.op == opcode::resolve_reply) ||
                !decode(p.payload, handshake) || handshake.key != id->local.key)
            return false;
        detail::is_datagram(*id) ? detail::learn_number(*id, handshake) : take_reply(*id, handshake);
        return true;
    }
    if (p.op == opcode::cm_ready) {
        shm_decision decision;
        if (!decode(p.payload, decision))
            return false;
        const auto ep = std::exchange(id->ep, nullptr);
        const auto qp = queue_pair::find(id->local.qpn);
        if (ep != nullptr && qp != nullptr)
            qp->select_transport(decision.shares ? ep : nullptr);
        if (ep != nullptr && !decision.shares) {
            id->obstacle = decision.why;
            detail::log_fall_back(*id);
            if (qp != nullptr)
                qp->note_obstacle(id->obstacle);
        }
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
        detail::rejected(*id, rejection.reason, rejection.data);
        return true;
    }
    return detail::received_disconnect(*id, p.op);
}

void conn_upcalls::lost(const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<queue_pair> &qp, int error)
{
    if (qp != nullptr)
        qp->path_lost();
    const lock_guard guard(lock());
    cm_id *id = std::exchange(path->owner, nullptr);
    if (id == nullptr)
        return;
    switch (id->state) {
    case cm_state::connecting:
        // Once TCP was up, a passive side that goes away has turned the request down.
        if (error == ECONNREFUSED)
            detail::refused(*id);
        else if (error == ECONNRESET || error == EPIPE)
            detail::rejected(*id, reject_reason::consumer_defined, {.size = reject_private_size});
        else
            detail::unreachable(*id, error);
        break;
    case cm_state::requested:
        id->state = cm_state::closed;
        break;
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        log::write(log::level::warn, "the peer at %s is lost: %s", text_of(id->route.addr.dst_storage).data(),
                strerror(error));
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

} // namespace

void detail::log_fall_back(const cm_id &id)
{
    log::write(log::level::info, "TCP carries everything between here and the peer at %s: %s",
            text_of(id.route.addr.dst_storage).data(), text_of(id.obstacle));
}

void detail::select_transport(cm_id &id)
{
    if (id.ep == nullptr && discovery::required()) {
        id.path->owner = nullptr;
        id.path->finish();
        return unreachable(id, EHOSTUNREACH);
    }
    if (const auto qp = queue_pair::find(id.local.qpn); qp != nullptr && id.ep != nullptr) {
        qp->expect(id.ep);
        qp->select_transport(id.ep);
    } else if (qp != nullptr) {
        qp->note_obstacle(id.obstacle);
    }
    if (id.ep == nullptr)
        log_fall_back(id);
    id.state = cm_state::replied;
    queue_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &id.remote.data);
}

void detail::request_seen(cm_id &listener)
{
    --listener.unseen;
    while (listener.unseen < listener.backlog && !listener.waiting.empty()) {
        const auto [path, request] = std::move(listener.waiting.front());
        listener.waiting.pop_front();
        if (path->lost())
            continue;
        try {
            take_request(listener, path, request);
        } catch (const std::bad_alloc &) {
            path->finish(); // the peer learns that it is not accepted
        }
    }
    if (listener.waiting.size() < max_waiting)
        listener.listening->resume();
}

tcp_conn_user &upcalls()
{
    static auto *const user = new conn_upcalls; // connections may outlive everything else
    return *user;
}

std::chrono::milliseconds detail::incoming(std::uint64_t listener_serial, int socket)
{
    const lock_guard guard(lock());
    const auto path = tcp_conn::open(socket, tcp_conn::role::accepted, upcalls());
    if (path == nullptr)
        return std::chrono::milliseconds(0);
    path->tag = listener_serial; // until its request has come
    event_loop::get()->after(unknown_callers::first_message_time, [weak = std::weak_ptr(path)] {
        const lock_guard relock(lock());
        if (const auto silent = weak.lock(); silent != nullptr && callers().remove(silent))
            silent->finish();
    });
    return callers().add(path);
}

} // namespace softrdma::net::cm

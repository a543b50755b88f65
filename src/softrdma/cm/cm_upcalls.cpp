// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm.hpp"
#include "fault/rules.hpp"
#include "progress/listener.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"

#include <cerrno>
#include <cstring>

namespace softrdma::cm
{

namespace
{

constexpr std::size_t max_waiting = 64;

void take_request(cm_id &parent, const std::shared_ptr<tcp_conn> &path, const cm_handshake &request) REQUIRES(lock())
{
    cm_id *child = detail::new_child(parent, request);
    child->attach_path(path);
    detail::query_addresses(*child, path->fd());
    detail::offer(parent, *child);
}

// Queues a request beyond the backlog; a device would drop it. Further ones stay in the kernel, without a descriptor.
void wait_in_turn(cm_id &parent, const std::shared_ptr<tcp_conn> &path, const cm_handshake &request) REQUIRES(lock())
{
    parent.waiting.emplace_back(path, request);
    if (parent.waiting.size() >= max_waiting)
        parent.listening->suspend();
}

bool injected(cm_id *id, const std::shared_ptr<tcp_conn> &path) REQUIRES(lock())
{
    const auto fault = fault::on_handshake();
    if (!fault)
        return false;
    if (*fault == fault::action::unreachable) // the message counts as lost
        return true;
    path->send_control(opcode::cm_reject, encode(no_reason));
    path->finish();
    if (id == nullptr)
        return true;
    id->detach_path();
    detail::rejected(*id, no_reason.reason, no_reason.data);
    return true;
}

} // namespace

cm_id *detail::new_child(cm_id &listener, const cm_handshake &request)
{
    cm_id *child = new_id(listener.events(), listener.context, listener.ps, listener.device);
    child->state = cm_state::requested;
    child->remote = request;
    // The initiator depth of the peer is the number of responder resources of the local side, and vice versa.
    child->request.responder_resources = request.initiator_depth;
    child->request.initiator_depth = request.responder_resources;
    child->request.flow_control = request.flow_control;
    child->request.retry_count = request.retry_count;
    child->request.rnr_retry_count = request.rnr_retry_count;
    child->request.srq = request.srq;
    child->request.qp_num = request.qpn;
    return child;
}

void detail::offer(cm_id &listener, cm_id &child)
{
    if (adopt_device(child) != 0 || !choose_psn(child) || !queue_request(listener, child))
        discard(&child);
}

bool detail::received_request(const std::shared_ptr<tcp_conn> &path, const packet &p)
{
    cm_handshake request;
    if (fault::active() && injected(nullptr, path)) [[unlikely]]
        return true;
    cm_id *parent = find_id(std::exchange(path->tag, 0));
    if (parent == nullptr || parent->state != cm_state::listening ||
            is_datagram(*parent) != (p.op == opcode::resolve_request) || !decode(p.payload, request))
        return false;
    if (parent->unseen >= parent->backlog)
        wait_in_turn(*parent, path, request);
    else
        take_request(*parent, path, request);
    return true;
}

void detail::request_fetched(cm_id &listener)
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
            path->finish(); // reports the rejection to the peer
        }
    }
    if (listener.listening != nullptr && listener.waiting.size() < max_waiting)
        listener.listening->resume();
}

} // namespace softrdma::cm

namespace softrdma
{

bool cm_id::received(const packet &p)
{
    cm_handshake reply;
    cm_rejection rejection;
    switch (p.op) {
    case opcode::cm_reply:
    case opcode::resolve_reply:
        if (fault::active() && cm::injected(this, path)) [[unlikely]]
            return true;
        if (state != cm_state::connecting || cm::detail::is_datagram(*this) != (p.op == opcode::resolve_reply) ||
                !decode(p.payload, reply) || reply.key != local.key)
            return false;
        remote = reply;
        if (cm::detail::is_datagram(*this))
            cm::detail::read_peer_qpn(*this);
        else if (search(remote.shm_address))
            searched();
        return true;
    case opcode::cm_ready:
        if (!take_decision(p))
            return false;
        if (state == cm_state::accepted) {
            state = cm_state::connected;
            cm::detail::queue_event(*this, RDMA_CM_EVENT_ESTABLISHED, 0);
        }
        return true;
    case opcode::cm_reject:
        if ((state != cm_state::connecting && state != cm_state::accepted) || !decode(p.payload, rejection))
            return false;
        end_path();
        cm::detail::rejected(*this, rejection.reason, rejection.data);
        return true;
    default:
        return cm::detail::received_disconnect(*this, p.op);
    }
}

void cm_id::searched()
{
    if (fails()) {
        end_path();
        return cm::detail::unreachable(*this, EHOSTUNREACH);
    }
    if (!active)
        return respond();
    decide();
    state = cm_state::replied;
    cm::detail::queue_event(*this, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &remote.data);
}

void cm_id::send_address(const shm_address &local_address)
{
    local.shm_address = local_address;
    const opcode first = cm::detail::is_datagram(*this) ? opcode::resolve_request : opcode::cm_request;
    path->send_control(active ? first : opcode::cm_reply, encode(local));
}

void cm_id::lost(const std::shared_ptr<packet_receiver> &carried, int error)
{
    if (carried != nullptr)
        carried->path_lost(*path);
    switch (state) {
    case cm_state::connecting:
        // Once TCP is connected, a passive side that closes the connection has rejected the request.
        if (error == ECONNREFUSED)
            cm::detail::retry_or_reject(*this);
        else if (error == ECONNRESET || error == EPIPE)
            cm::detail::rejected(*this, reject_reason::consumer_defined, {.size = reject_private_size});
        else
            cm::detail::unreachable(*this, error);
        break;
    case cm_state::requested:
        state = cm_state::closed;
        break;
    case cm_state::replied:
    case cm_state::accepted:
    case cm_state::connected:
        log::write(log::level::warn, "peer %s: connection lost: %s", text_of(route.addr.dst_storage).data(),
                strerror(error));
        state = cm_state::disconnect_received;
        cm::detail::queue_last_event(*this, RDMA_CM_EVENT_DISCONNECTED, 0, true);
        break;
    case cm_state::disconnect_sent:
        cm::detail::disconnected(*this, 0);
        break;
    default:
        break;
    }
}

} // namespace softrdma

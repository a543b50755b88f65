// SPDX-License-Identifier: BSD-3-Clause
// Messages of peers over RoCE, and the events of their connections.
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "cm/roce_connect.hpp"
#include "cm/roce_registry.hpp"
#include "fault/rules.hpp"
#include "verbs/tap.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace softrdma::cm::over_roce
{

namespace
{

cm_handshake parameters_of(const cm_mad &m, const private_data &data)
{
    cm_handshake h;
    static_cast<cm_parameters &>(h) = m;
    h.data = data;
    return h;
}

void adopt_path(cm_id &child, const cm_mad &m, const roce::ip_header &header) REQUIRES(lock())
{
    if (!detail::is_datagram(child)) {
        child.path_mtu = static_cast<ibv_mtu>(m.mtu);
        child.path_ack_timeout = m.ack_timeout;
    }
    child.traffic_class = m.traffic_class;
    const unsigned interface = interface_of(header.destination);
    child.route.addr.src_storage = address_of(std::bit_cast<ibv_gid>(header.destination), interface);
    child.route.addr.dst_storage = address_of(std::bit_cast<ibv_gid>(header.source), interface);
    port_of(child.route.addr.src_storage) = htons(static_cast<std::uint16_t>(m.service_id));
    port_of(child.route.addr.dst_storage) = htons(header.source_port);
    detail::fill_gids(child);
}

// Returns the reason to reject a request, or 0.
std::uint16_t check_request(
        const cm_mad &m, const roce::udp_flow &flow, roce::ip_header &header, private_data &data) noexcept
{
    if (m.transport != 0)
        return reject_reason::invalid_transport;
    if (!split_header(m.data, header, data))
        return reject_reason::invalid_service_id;
    if (header.source != flow.source || header.destination != flow.destination)
        return reject_reason::invalid_gid;
    const bool has_mtu = m.attribute == cm_attribute::request;
    const bool fits = m.mtu >= IBV_MTU_256 && m.mtu <= roce_connect::max_path_mtu(gid_index_of(flow.destination));
    return has_mtu && !fits ? reject_reason::invalid_mtu : std::uint16_t{0};
}

void send_rejection(const roce::udp_flow &flow, const cm_mad &to, std::uint16_t reason, roce::cm_subject subject)
        REQUIRES(lock())
{
    const bool resolves = to.attribute == cm_attribute::resolve_request;
    cm_mad m = make_mad(
            resolves ? cm_attribute::resolve_reply : cm_attribute::reject, to.transaction, to.remote_id, to.local_id);
    m.subject = subject;
    m.reason = reason;
    if (resolves)
        m.reason = reason == reject_reason::invalid_service_id ? roce::resolve_status::service_unknown
                                                               : roce::resolve_status::rejected;
    send_message(route_to(flow), m);
}

// Ends the connection of a queue pair that requests another one: its host has lost the first. Returns false without it.
bool end_stale(const roce::udp_flow &flow, const cm_mad &request) REQUIRES(lock())
{
    if (request.qpn == 0) // a resolution, or a program without a queue pair
        return false;
    const auto at = std::ranges::find_if(state().links, [&](const auto &entry) {
        return entry.second->exchange.is_established_with(request.qpn) &&
               entry.second->route.destination == flow.source;
    });
    if (at == state().links.end())
        return false;
    const auto stale = at->second;
    stale->exchange.disconnect(clock::now());
    handle(*stale, mad_exchange::event::lost, request);
    stale->id = 0;
    return true;
}

void take_request(const std::shared_ptr<roce_service> &service, const cm_mad &m, const roce::udp_flow &flow)
        REQUIRES(lock())
{
    cm_id *parent = detail::find_id(service->listener);
    roce::ip_header header;
    private_data data;
    const std::uint16_t reason = check_request(m, flow, header, data);
    const bool resolves = m.attribute == cm_attribute::resolve_request;
    if (parent == nullptr || reason != 0 || detail::is_datagram(*parent) != resolves)
        return send_rejection(
                flow, m, reason != 0 ? reason : reject_reason::invalid_service_id, roce::cm_subject::request);
    if (end_stale(flow, m))
        return send_rejection(flow, m, reject_reason::stale_connection, roce::cm_subject::request);
    if (parent->unseen >= parent->backlog) // the peer repeats its request
        return;
    if (const auto fault = fault::active() ? fault::on_handshake() : std::nullopt; fault) [[unlikely]] {
        if (*fault != fault::action::unreachable)
            send_rejection(flow, m, reject_reason::consumer_defined, roce::cm_subject::request);
        return;
    }
    cm_id *child = detail::new_child(*parent, parameters_of(m, data));
    adopt_path(*child, m, header);
    try {
        datagram_route route = route_to(flow);
        route.traffic_class = m.traffic_class;
        child->link = new_link(*child, route);
        if (child->link == nullptr)
            return detail::discard(child);
        child->link->service = service;
        child->link->exchange.accept_request(m);
        state().passive[{flow.source, m.local_id}] = child->link;
        detail::offer(*parent, *child);
    } catch (const std::bad_alloc &) { // the peer repeats its request
        detail::discard(child);
    }
}

std::shared_ptr<roce_link> find_link(const roce::udp_flow &flow, const cm_mad &m) REQUIRES(lock())
{
    std::shared_ptr<roce_link> link;
    if (m.remote_id == 0) { // a request, or its end by a sender that knows no ID of this side
        const auto at = state().passive.find({flow.source, m.local_id});
        link = at == state().passive.end() ? nullptr : at->second.lock();
    } else {
        const auto at = state().links.find(m.remote_id);
        link = at == state().links.end() ? nullptr : at->second;
    }
    return link != nullptr && link->route.destination == flow.source && link->route.source == flow.destination
                   ? link
                   : nullptr;
}

void find_listener(const roce::management_packet &p, const cm_mad &m, bool is_handed_on, unsigned checks)
        REQUIRES(lock());

// Checks for a listener again before it rejects a request: programs reopen their listener for each connection. Clients
// of this device repeat a rejected request themselves.
void await_listener(const roce::management_packet &p, const cm_mad &m, bool is_handed_on, unsigned checks)
        REQUIRES(lock())
{
    constexpr auto first_pause = std::chrono::milliseconds(10);
    constexpr unsigned max_checks = 6; // within 630 ms
    constexpr std::size_t max_waiting = 64;
    auto &requests = state().unlistened;
    const peer_key key{p.flow.source, m.local_id};
    if (requests.contains(key)) // a copy of it
        return;
    if (m.guid == device_guid || checks == max_checks || requests.size() == max_waiting)
        return send_rejection(p.flow, m, reject_reason::invalid_service_id, roce::cm_subject::request);
    const std::vector<std::byte> bytes(p.bytes.begin(), p.bytes.end());
    event_loop::get()->after(first_pause * (1 << checks), [=, flow = p.flow] {
        const lock_guard guard(lock());
        state().unlistened.erase(key);
        if (find_link(flow, m) == nullptr) // no copy has found a listener
            find_listener({.flow = flow, .bytes = bytes, .message = {}}, m, is_handed_on, checks + 1);
    });
    requests.insert(key);
}

// Handles a request that no connection of this process has received before, and that was checked that many times.
void find_listener(const roce::management_packet &p, const cm_mad &m, bool is_handed_on, unsigned checks)
{
    auto &services = state().services;
    const auto [first, last] = services.equal_range(m.service_id);
    for (auto at = first; at != last; ++at) {
        const auto service = at->second.lock();
        if (service != nullptr && service->listener != 0 && service->serves(p.flow.destination))
            return take_request(service, m, p.flow);
    }
    roce::management_port &port = *state().port;
    const bool v4 = is_v4(std::bit_cast<ibv_gid>(p.flow.destination));
    const bool is_of_other = !is_handed_on && port.is_shared() &&
                             (port.hand_on(p, name_of_service(m.service_id, &p.flow.destination, v4)) ||
                                     port.hand_on(p, name_of_service(m.service_id, nullptr, v4)));
    if (!is_of_other)
        await_listener(p, m, is_handed_on, checks);
}

// Handles a message that belongs to no connection: those whose sender waits for a response get one.
void respond_to_unknown(const roce::udp_flow &flow, const cm_mad &m) REQUIRES(lock())
{
    if (m.attribute == cm_attribute::reply)
        return send_rejection(flow, m, reject_reason::invalid_id, roce::cm_subject::reply);
    cm_mad reply = make_mad(cm_attribute{}, m.transaction, m.remote_id, m.local_id);
    if (m.attribute == cm_attribute::disconnect_request) {
        reply.attribute = cm_attribute::disconnect_reply;
        send_message(route_to(flow), reply);
    } else if (m.attribute == cm_attribute::load_alternate_path) {
        reply.attribute = cm_attribute::alternate_path_reply;
        reply.reason = mad_exchange::alternate_path_invalid_id;
        send_message(route_to(flow), reply);
    }
}

void replied(cm_id &id, const cm_mad &m) REQUIRES(lock())
{
    if (const auto fault = fault::active() ? fault::on_handshake() : std::nullopt; fault) [[unlikely]] {
        if (*fault == fault::action::unreachable)
            return;
        id.link->exchange.reject(reject_reason::consumer_defined, no_reason.data);
        return detail::rejected(id, no_reason.reason, no_reason.data);
    }
    id.remote = parameters_of(m, m.data);
    if (detail::is_datagram(id))
        return detail::read_peer_qpn(id, m.qkey);
    id.state = cm_state::replied;
    detail::queue_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &id.remote.data);
}

void notify(cm_id &id, mad_exchange::event event, const cm_mad &m) REQUIRES(lock())
{
    switch (event) {
    case mad_exchange::event::replied:
        return replied(id, m);
    case mad_exchange::event::ready:
        if (id.state != cm_state::accepted)
            return;
        id.state = cm_state::connected;
        return detail::queue_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
    case mad_exchange::event::rejected:
        if (id.state == cm_state::requested) // rdma_accept() reports the end
            id.state = cm_state::closed;
        else if (detail::is_datagram(id))
            detail::not_resolved(id, m.reason);
        else
            detail::rejected(id, m.reason, m.data);
        return;
    case mad_exchange::event::unknown_service:
        return detail::retry_or_reject(id);
    case mad_exchange::event::disconnect_request:
        detail::received_disconnect(id, opcode::cm_disconnect_request);
        return;
    case mad_exchange::event::disconnected:
        return detail::disconnected(id, 0);
    case mad_exchange::event::unreachable:
        return id.state == cm_state::disconnect_sent ? detail::disconnected(id, -ETIMEDOUT)
                                                     : detail::unreachable(id, ETIMEDOUT);
    case mad_exchange::event::lost:
        log::write(log::level::warn, "peer %s: connection lost: %s", text_of(id.route.addr.dst_storage).data(),
                m.attribute == cm_attribute::reject    ? "rejected by the peer"
                : m.attribute == cm_attribute::request ? "its queue pair requests another one"
                                                       : "its process has ended");
        id.state = cm_state::disconnect_received;
        return detail::queue_last_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, false);
    case mad_exchange::event::none:
        return;
    }
}

} // namespace

void received(const roce::management_packet &p, bool is_handed_on)
{
    cm_mad m;
    if (!decode(p.message.payload, m))
        return;
    const lock_guard guard(lock());
    if (state().port == nullptr) // only the mailbox is open: memory was missing
        return;
    const bool is_request = roce::is_request(m.attribute);
    if (is_request != (m.remote_id == 0) && m.attribute != cm_attribute::reject)
        return;
    const auto link = find_link(p.flow, m);
    const std::uint32_t lane = m.remote_id >> lane_shift;
    if (link == nullptr && m.remote_id != 0 && lane != state().port->lane() && !is_handed_on &&
            state().port->is_shared() && state().port->hand_on(p, name_of_lane(lane)))
        return;
    if (tap *t = tap::current(); t != nullptr) [[unlikely]]
        t->received(p.message, header_of(p.flow.source, p.flow.destination, p.bytes.size()));
    if (link != nullptr) {
        link->has_responded = true;
        handle(*link, link->exchange.arrived(m, clock::now()), m);
    } else if (is_request) {
        find_listener(p, m, is_handed_on, 0);
    } else {
        respond_to_unknown(p.flow, m);
    }
}

void returned(const roce::management_packet &p)
{
    cm_mad m;
    if (!decode(p.message.payload, m))
        return;
    const lock_guard guard(lock());
    const auto at = state().links.find(m.local_id);
    if (at == state().links.end())
        return;
    const auto link = at->second;
    if (link->exchange.remote_id() == m.remote_id && link->route.destination == p.flow.destination)
        handle(*link, link->exchange.probe_returned(), m);
}

void handle(roce_link &link, mad_exchange::event event, const cm_mad &m)
{
    if (event == mad_exchange::event::ready)
        link.service.reset();
    if (cm_id *id = detail::find_id(link.id); id != nullptr && event != mad_exchange::event::none) {
        try {
            notify(*id, event, m);
        } catch (const std::bad_alloc &) { // the peer does not repeat the message
            link.id = 0;
            link.exchange.abandon(clock::now());
            id->lost(nullptr, ENOMEM);
        }
    }
    update_timer(link);
}

} // namespace softrdma::cm::over_roce

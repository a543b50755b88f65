// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm_roce.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/settings.hpp"
#include "base/socket_address.hpp"
#include "cm/mad_exchange.hpp"
#include "cm/roce_connect.hpp"
#include "fault/rules.hpp"
#include "transport/roce/management_port.hpp"
#include "verbs/tap.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/random.h>
#include <thread>

namespace softrdma::cm
{

using clock = std::chrono::steady_clock;
using roce::cm_attribute;
using roce::cm_mad;

// Connection of one id with its peer. It exists until no message of the peer can arrive, longer than the id.
struct roce_link final : mad_exchange::outlet, std::enable_shared_from_this<roce_link> {
    roce_link(std::uint32_t number, const datagram_route &r)
        : route(r), exchange(number, settings().response_timeout, *this)
    {
    }
    void send(const cm_mad &m) override;

    const datagram_route route;
    std::uint64_t id = 0;                  // serial number; 0 once the id is destroyed
    std::shared_ptr<roce_service> service; // passive side, until the connection is established
    std::optional<mad_exchange::time_point> timer;
    bool is_ending = false;
    mad_exchange exchange;
};

// A port on which an id listens, or that a repeated request may still name.
struct roce_service {
    ~roce_service()
    {
        for (const auto &box : boxes)
            box->close();
    }
    bool serves(const network_address &destination) const noexcept
    {
        const bool v4 = is_v4(std::bit_cast<ibv_gid>(destination));
        return address ? *address == destination : v4 ? takes_v4 : takes_v6;
    }

    std::uint64_t number = 0;
    std::optional<network_address> address; // empty: all of these families
    bool takes_v4 = false;
    bool takes_v6 = false;
    std::uint64_t listener = 0; // serial number of the id; 0 once it no longer listens
    std::vector<std::shared_ptr<roce::mailbox>> boxes;
};

namespace over_roce
{

namespace
{

constexpr std::uint32_t lane_shift = 27; // position of the lane in a communication ID
constexpr std::uint64_t node_guid = 0x0200535246544401;

namespace reason
{
constexpr std::uint16_t invalid_id = 6;
constexpr std::uint16_t invalid_transport = 9;
constexpr std::uint16_t invalid_gid = 12;
constexpr std::uint16_t invalid_mtu = 26;
} // namespace reason

using peer_key = std::pair<network_address, std::uint32_t>; // address and communication ID of a peer

// Never destroyed: the progress thread may run until the end of the process.
struct registry {
    std::shared_ptr<roce::management_port> port GUARDED_BY(lock());
    std::shared_ptr<roce::mailbox> box GUARDED_BY(lock());
    std::unordered_map<std::uint32_t, std::shared_ptr<roce_link>> links GUARDED_BY(lock()); // keys: own IDs
    std::map<peer_key, std::weak_ptr<roce_link>> passive GUARDED_BY(lock());
    std::unordered_multimap<std::uint64_t, std::weak_ptr<roce_service>> services GUARDED_BY(
            lock()); // keys: service IDs
};

constinit process::single<registry> the_registry;

registry &state()
{
    return the_registry.get();
}

void received(const roce::management_packet &p, bool is_handed_on);

// Name of the mailbox of a process.
local_address name_of_lane(std::uint32_t lane) noexcept
{
    return local_address("softrdma-roce/%u/cm/%u", geteuid(), lane);
}

// Name of the mailbox of a listener, at an address or at all addresses of a family.
local_address name_of_service(std::uint64_t number, const network_address *address, bool v4) noexcept
{
    std::array<std::uint64_t, 2> words{};
    if (address != nullptr)
        words = std::bit_cast<std::array<std::uint64_t, 2>>(*address);
    const unsigned family = address != nullptr ? 0 : v4 ? 4 : 6;
    return local_address("softrdma-roce/%u/service/%llx/%u/%llx:%llx", geteuid(),
            static_cast<unsigned long long>(number), family, static_cast<unsigned long long>(be64toh(words[0])),
            static_cast<unsigned long long>(be64toh(words[1])));
}

void send_message(const datagram_route &route, const cm_mad &m) REQUIRES(lock())
{
    const auto port = state().port;
    if (port == nullptr)
        return;
    const roce::mad_bytes bytes = encode(m);
    const datagram d = roce::management_datagram(static_cast<std::uint32_t>(m.transaction) & psn_mask);
    if (tap *t = tap::current(); t != nullptr) [[unlikely]] {
        const iovec payload{const_cast<std::byte *>(bytes.data()), bytes.size()};
        t->sent(d, route, {&payload, 1});
    }
    port->send(route, d, bytes);
}

std::size_t gid_index_of(const network_address &address) noexcept
{
    return static_cast<std::size_t>(std::ranges::find_if(gid_table(), [&](const gid_entry &entry) {
        return std::bit_cast<network_address>(entry.gid) == address;
    }) - gid_table().begin());
}

unsigned interface_of(const network_address &address) noexcept
{
    const std::size_t index = gid_index_of(address);
    return index < gid_table().size() ? gid_table()[index].interface : 0;
}

datagram_route route_to(const roce::udp_flow &flow) noexcept
{
    return {.source = flow.destination, .destination = flow.source, .interface = interface_of(flow.destination)};
}

// Creates the connection of an id with an unused communication ID. The ID contains the lane of this process, so that
// other processes can hand on what they receive for it. Returns NULL if no random number is available.
std::shared_ptr<roce_link> new_link(const cm_id &id, const datagram_route &route) REQUIRES(lock())
{
    std::uint32_t number = 0;
    do {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            return nullptr;
        number = state().port->lane() << lane_shift | number >> (32 - lane_shift);
    } while (number == 0 || state().links.contains(number));
    auto link = std::make_shared<roce_link>(number, route);
    link->id = id.serial;
    state().links.emplace(number, link);
    return link;
}

void forget(const roce_link &link) REQUIRES(lock())
{
    const auto at = state().passive.find({link.route.destination, link.exchange.remote_id()});
    if (at != state().passive.end() && at->second.lock().get() == &link)
        state().passive.erase(at);
    state().links.erase(link.exchange.local_id());
}

void handle(roce_link &link, mad_exchange::event event, const cm_mad &m) REQUIRES(lock());

// Keeps the timer of the connection after each step: one is pending at a time, and an early one is started again. A
// closed connection remains while messages of the peer may be on their way.
void update_timer(roce_link &link) REQUIRES(lock())
{
    const auto now = clock::now();
    if (link.exchange.is_closed() && !std::exchange(link.is_ending, true)) {
        link.service.reset();
        event_loop::get()->after(settings().response_timeout, [weak = link.weak_from_this()] {
            const lock_guard guard(lock());
            if (const auto ended = weak.lock(); ended != nullptr)
                forget(*ended);
        });
    }
    const auto deadline = link.exchange.deadline();
    if (!deadline || (link.timer && *link.timer <= *deadline))
        return;
    link.timer = *deadline;
    const auto delay = std::chrono::ceil<std::chrono::microseconds>(*deadline - now);
    event_loop::get()->after(std::max(delay, std::chrono::microseconds(0)), [weak = link.weak_from_this()] {
        const lock_guard guard(lock());
        const auto waiting = weak.lock();
        if (waiting == nullptr)
            return;
        waiting->timer.reset();
        handle(*waiting, waiting->exchange.expired(clock::now()), {});
    });
}

// Parameters of the peer in its request or reply.
cm_handshake parameters_of(const cm_mad &m, const private_data &data)
{
    cm_handshake h;
    h.qpn = m.qpn;
    h.psn = m.psn;
    h.responder_resources = m.responder_resources;
    h.initiator_depth = m.initiator_depth;
    h.flow_control = m.flow_control;
    h.retry_count = m.retry_count;
    h.rnr_retry_count = m.rnr_retry_count;
    h.srq = m.srq;
    h.data = data;
    return h;
}

void adopt_path(cm_id &child, const cm_mad &m, const roce::ip_header &header) REQUIRES(lock())
{
    child.path_mtu = static_cast<ibv_mtu>(m.mtu);
    child.path_ack_timeout = m.ack_timeout;
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
        return reason::invalid_transport;
    if (!split_header(m.data, header, data))
        return reject_reason::invalid_service_id;
    if (header.source != flow.source || header.destination != flow.destination)
        return reason::invalid_gid;
    return roce_connect::max_path_mtu(gid_index_of(flow.destination)) < m.mtu ? reason::invalid_mtu : std::uint16_t{0};
}

void send_rejection(const roce::udp_flow &flow, const cm_mad &to, std::uint16_t why, roce::cm_subject subject)
        REQUIRES(lock())
{
    cm_mad m{.attribute = cm_attribute::reject,
            .transaction = to.transaction,
            .local_id = to.remote_id,
            .remote_id = to.local_id};
    m.subject = subject;
    m.reason = why;
    send_message(route_to(flow), m);
}

void take_request(const std::shared_ptr<roce_service> &service, const cm_mad &m, const roce::udp_flow &flow)
        REQUIRES(lock())
{
    cm_id *parent = detail::find_id(service->listener);
    roce::ip_header header;
    private_data data;
    const std::uint16_t refused = check_request(m, flow, header, data);
    if (parent == nullptr || refused != 0)
        return send_rejection(
                flow, m, refused != 0 ? refused : reject_reason::invalid_service_id, roce::cm_subject::request);
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
        child->link = new_link(*child, route_to(flow));
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

// Handles a request that no connection of this process has received before.
void find_listener(const roce::management_packet &p, const cm_mad &m, bool is_handed_on) REQUIRES(lock())
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
        send_rejection(p.flow, m, reject_reason::invalid_service_id, roce::cm_subject::request);
}

// Handles a message that belongs to no connection: those whose sender waits for a response get one.
void answer_unknown(const roce::udp_flow &flow, const cm_mad &m) REQUIRES(lock())
{
    if (m.attribute == cm_attribute::reply)
        return send_rejection(flow, m, reason::invalid_id, roce::cm_subject::reply);
    if (m.attribute == cm_attribute::disconnect_request)
        send_message(route_to(flow), {.attribute = cm_attribute::disconnect_reply,
                                             .transaction = m.transaction,
                                             .local_id = m.remote_id,
                                             .remote_id = m.local_id});
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

void received(const roce::management_packet &p, bool is_handed_on)
{
    cm_mad m;
    if (!decode(p.message.payload, m))
        return;
    const lock_guard guard(lock());
    const bool is_request = m.attribute == cm_attribute::request;
    if (is_request != (m.remote_id == 0) && m.attribute != cm_attribute::reject)
        return;
    const auto link = find_link(p.flow, m);
    const std::uint32_t lane = m.remote_id >> lane_shift;
    if (link == nullptr && m.remote_id != 0 && lane != state().port->lane() && !is_handed_on &&
            state().port->is_shared() && state().port->hand_on(p, name_of_lane(lane)))
        return;
    if (tap *t = tap::current(); t != nullptr) [[unlikely]]
        t->received(p.message, header_of(p.flow.source, p.flow.destination, p.bytes.size()));
    if (link != nullptr)
        handle(*link, link->exchange.arrived(m, clock::now()), m);
    else if (is_request)
        find_listener(p, m, is_handed_on);
    else
        answer_unknown(p.flow, m);
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
        if (id.state == cm_state::requested) // the program learns it from rdma_accept()
            id.state = cm_state::closed;
        else if (id.state == cm_state::connecting && m.reason == reject_reason::invalid_service_id)
            detail::refused(id);
        else
            detail::rejected(id, m.reason, m.data);
        return;
    case mad_exchange::event::disconnect_request:
        detail::received_disconnect(id, opcode::cm_disconnect_request);
        return;
    case mad_exchange::event::disconnected:
        return detail::disconnected(id, 0);
    case mad_exchange::event::unreachable:
        return id.state == cm_state::disconnect_sent ? detail::disconnected(id, -ETIMEDOUT)
                                                     : detail::unreachable(id, ETIMEDOUT);
    case mad_exchange::event::none:
        return;
    }
}

void handle(roce_link &link, mad_exchange::event event, const cm_mad &m)
{
    if (event == mad_exchange::event::ready)
        link.service.reset();
    if (cm_id *id = detail::find_id(link.id); id != nullptr && event != mad_exchange::event::none)
        notify(*id, event, m);
    update_timer(link);
}

// Fields that request and reply have in common.
cm_mad parameters_of(const cm_id &id) REQUIRES(lock())
{
    cm_mad m{};
    m.guid = node_guid;
    m.qpn = id.local.qpn;
    m.psn = id.local.psn;
    m.responder_resources = id.local.responder_resources;
    m.initiator_depth = id.local.initiator_depth;
    m.flow_control = id.local.flow_control;
    m.rnr_retry_count = id.local.rnr_retry_count;
    m.srq = id.local.srq;
    m.data = id.local.data;
    return m;
}

std::uint64_t service_of(const cm_id &id, sockaddr_storage address) noexcept
{
    return static_cast<std::uint64_t>(id.ps) << 16 | ntohs(port_of(address));
}

// A process that exits ends its connections, as the kernel does for those of a device.
void leave()
{
    constexpr unsigned max_tries = 100;
    bool is_held = false;
    for (unsigned i = 0; !is_held && the_registry.if_created() != nullptr && i < max_tries; ++i) {
        is_held = lock().try_lock();
        if (!is_held) // a thread that has been stopped by the exit of its process may hold it forever
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!is_held)
        return;
    const lock_guard guard(lock(), std::adopt_lock);
    for (const auto &[number, link] : state().links)
        link->exchange.abandon(clock::now());
}

} // namespace

} // namespace over_roce

void roce_link::send(const cm_mad &m)
{
    over_roce::send_message(route, m);
}

bool over_roce::open()
{
    {
        const lock_guard guard(lock());
        if (state().port != nullptr)
            return true;
    }
    const auto port = start_event_loop() == nullptr ? nullptr : roce::port::open();
    if (port == nullptr)
        return false;
    const lock_guard guard(lock());
    registry &r = state();
    if (r.port != nullptr)
        return true;
    r.port = roce::management_port::open(port, [](const roce::management_packet &p) { received(p, false); });
    atexit(leave);
    if (r.port != nullptr && r.port->is_shared())
        r.box = roce::mailbox::open(
                name_of_lane(r.port->lane()), [](const roce::management_packet &p) { received(p, true); });
    return r.port != nullptr;
}

int over_roce::listen(cm_id &id)
{
    sockaddr_storage &address = id.route.addr.src_storage;
    const bool is_any = detail::is_wildcard(&id.route.addr.src_addr);
    const std::uint64_t number = service_of(id, address);
    std::optional<network_address> own;
    if (!is_any)
        own = std::bit_cast<network_address>(gid_of(address));
    auto &services = state().services;
    std::erase_if(services, [](const auto &entry) { return entry.second.expired(); });
    const bool takes_v4 = is_any && (address.ss_family == AF_INET || !id.v6_only);
    const bool takes_v6 = is_any && address.ss_family == AF_INET6;
    const auto [first, last] = services.equal_range(number);
    for (auto at = first; at != last; ++at) { // a connection of an earlier listener is not established yet
        const auto service = at->second.lock();
        if (service == nullptr || service->listener != 0 || service->address != own || service->takes_v4 != takes_v4 ||
                service->takes_v6 != takes_v6)
            continue;
        service->listener = id.serial;
        id.service = service;
        return 0;
    }
    auto service = std::make_shared<roce_service>();
    service->number = number;
    service->address = own;
    service->takes_v4 = takes_v4;
    service->takes_v6 = takes_v6;
    service->listener = id.serial;
    std::vector<local_address> names;
    if (own)
        names.push_back(name_of_service(number, &*own, false));
    for (const bool v4 : {true, false}) {
        if (v4 ? takes_v4 : takes_v6)
            names.push_back(name_of_service(number, nullptr, v4));
    }
    for (const local_address &name : names) {
        if (!state().port->is_shared())
            break;
        auto box = roce::mailbox::open(name, [](const roce::management_packet &p) { received(p, true); });
        if (box == nullptr)
            return errno;
        service->boxes.push_back(std::move(box));
    }
    services.emplace(number, service);
    id.service = std::move(service);
    return 0;
}

void over_roce::stop_listening(cm_id &id)
{
    if (id.service != nullptr)
        id.service->listener = 0;
    id.service.reset();
}

int over_roce::request(cm_id &id)
{
    const auto &addresses = id.route.addr.addr.ibaddr;
    const auto source = std::bit_cast<network_address>(addresses.sgid);
    const auto destination = std::bit_cast<network_address>(addresses.dgid);
    if (id.link != nullptr) // it belongs to the attempt that was refused
        id.link->id = 0;
    id.link = new_link(id, {.source = source, .destination = destination, .interface = interface_of(source)});
    if (id.link == nullptr)
        return EAGAIN;
    const roce::ip_header header{.v4 = is_v4(addresses.sgid),
            .source_port = ntohs(port_of(id.route.addr.src_storage)),
            .source = source,
            .destination = destination};
    constexpr std::uint8_t response_timeout = 18; // 1.07 s
    cm_mad m = parameters_of(id);
    m.service_id = service_of(id, id.route.addr.dst_storage);
    m.retry_count = id.local.retry_count;
    m.mtu = static_cast<std::uint8_t>(id.path_mtu);
    m.ack_timeout = id.ack_timeout.value_or(id.path_ack_timeout);
    m.local_timeout = m.remote_timeout = response_timeout;
    m.source = source;
    m.destination = destination;
    m.data = with_header(header, id.local.data);
    id.state = cm_state::connecting;
    id.link->exchange.request(m, clock::now());
    update_timer(*id.link);
    return 0;
}

void over_roce::reply(cm_id &id)
{
    id.link->exchange.reply(parameters_of(id), clock::now());
    update_timer(*id.link);
}

void over_roce::ready(cm_id &id)
{
    id.link->exchange.ready();
    update_timer(*id.link);
}

void over_roce::reject(cm_id &id, const cm_rejection &rejection)
{
    id.link->exchange.reject(static_cast<std::uint16_t>(rejection.reason), rejection.data);
    update_timer(*id.link);
}

void over_roce::disconnect(cm_id &id)
{
    id.link->exchange.disconnect(clock::now());
    update_timer(*id.link);
}

void over_roce::confirm_disconnect(cm_id &id)
{
    id.link->exchange.confirm_disconnect();
    update_timer(*id.link);
}

void over_roce::abandon(cm_id &id)
{
    const auto link = std::exchange(id.link, nullptr);
    link->id = 0;
    link->exchange.abandon(clock::now());
    update_timer(*link);
}

} // namespace softrdma::cm

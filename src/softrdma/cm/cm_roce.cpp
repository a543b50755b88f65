// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm_roce.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "cm/roce_connect.hpp"
#include "cm/roce_registry.hpp"
#include "transport/roce/probe.hpp"
#include "transport/shm/fd_server.hpp"

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace softrdma::cm::over_roce
{

namespace
{

cm_mad parameters_of(const cm_id &id) REQUIRES(lock())
{
    cm_mad m{};
    m.guid = device_guid;
    static_cast<cm_parameters &>(m) = id.local;
    return m;
}

std::uint64_t service_of(const cm_id &id, sockaddr_storage address) noexcept
{
    return static_cast<std::uint64_t>(id.ps) << 16 | ntohs(port_of(address));
}

// Limit for the confirmations of peers, which the exit waits for. Within it, a request is repeated four times.
constexpr std::chrono::milliseconds exit_limit{1000};

// Ends the connections of an exiting process. Returns whether their peers have confirmed this.
bool try_leaving()
{
    if (state_if_created() == nullptr)
        return true;
    if (!lock().try_lock()) // the exit might have stopped a thread that holds the lock
        return false;
    const lock_guard guard(lock(), std::adopt_lock);
    bool is_confirmed = true;
    for (const auto &[number, link] : state().links) {
        if (link->id != 0) {
            link->id = 0;
            link->exchange.abandon(clock::now());
            try {
                update_timer(*link);
            } catch (const std::bad_alloc &) { // its message is not repeated
            }
        }
        is_confirmed = is_confirmed && !link->exchange.deadline();
    }
    return is_confirmed;
}

// Ends the connections of a process that exits, as the kernel does. The progress thread repeats the requests.
void leave()
{
    const auto end = clock::now() + exit_limit;
    while (!try_leaving() && clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace

bool open()
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
    if (port->sockets().is_shared() && r.box == nullptr) { // other processes take messages for this one
        const std::uint32_t lane = port->sockets().lane();
        r.box = roce::mailbox::open(name_of_lane(lane), [](const roce::management_packet &p) { received(p, true); });
        if (r.box == nullptr) {
            const int error = errno;
            log::write(log::level::error, "mailbox of lane %u of UDP port %u: not opened: %s", lane,
                    unsigned{roce::udp_port}, strerror(error));
            errno = error;
            return false;
        }
    }
    r.port = roce::management_port::open(
            port, [](const roce::management_packet &p) { received(p, false); }, returned);
    if (r.port != nullptr)
        atexit(leave);
    return r.port != nullptr;
}

int listen(cm_id &id)
{
    sockaddr_storage &address = id.route.addr.src_storage;
    const bool is_any = detail::is_wildcard(&id.route.addr.src_addr);
    const std::uint64_t number = service_of(id, address);
    std::optional<network_address> bound_address;
    if (!is_any)
        bound_address = std::bit_cast<network_address>(gid_of(address));
    auto &services = state().services;
    std::erase_if(services, [](const auto &entry) { return entry.second.expired(); });
    const bool takes_v4 = is_any && (address.ss_family == AF_INET || !id.v6_only);
    const bool takes_v6 = is_any && address.ss_family == AF_INET6;
    const auto [first, last] = services.equal_range(number);
    for (auto at = first; at != last; ++at) { // a connection of an earlier listener is not established yet
        const auto service = at->second.lock();
        if (service == nullptr || service->listener != 0 || service->address != bound_address ||
                service->takes_v4 != takes_v4 || service->takes_v6 != takes_v6)
            continue;
        service->listener = id.serial;
        id.service = service;
        return 0;
    }
    auto service = std::make_shared<roce_service>();
    service->boxes.reserve(2);
    service->number = number;
    service->address = bound_address;
    service->takes_v4 = takes_v4;
    service->takes_v6 = takes_v6;
    service->listener = id.serial;
    std::vector<local_address> names;
    if (bound_address)
        names.push_back(name_of_service(number, &*bound_address, false));
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

void stop_listening(cm_id &id)
{
    if (id.service != nullptr)
        id.service->listener = 0;
    id.service.reset();
}

int request(cm_id &id)
{
    const auto &addresses = id.route.addr.addr.ibaddr;
    const auto source = std::bit_cast<network_address>(addresses.sgid);
    const auto destination = std::bit_cast<network_address>(addresses.dgid);
    if (id.link != nullptr) // it belongs to the attempt that was refused
        id.link->id = 0;
    id.link = new_link(id, {.source = source,
                                   .destination = destination,
                                   .interface = interface_of(source),
                                   .traffic_class = id.traffic_class});
    if (id.link == nullptr)
        return EAGAIN;
    const roce::ip_header header{.v4 = is_v4(addresses.sgid),
            .source_port = ntohs(port_of(id.route.addr.src_storage)),
            .source = source,
            .destination = destination};
    constexpr std::uint8_t response_timeout = 18; // 1.07 s
    cm_mad m = parameters_of(id);
    m.service_id = service_of(id, id.route.addr.dst_storage);
    id.state = cm_state::connecting;
    if (detail::is_datagram(id)) {
        m.data = with_header(header, id.local.data, roce::resolve_field_size);
        id.link->exchange.resolve(m, clock::now());
        update_timer(*id.link);
        return 0;
    }
    m.mtu = static_cast<std::uint8_t>(id.path_mtu);
    m.traffic_class = id.traffic_class;
    m.ack_timeout = id.ack_timeout.value_or(id.path_ack_timeout);
    m.local_timeout = m.remote_timeout = response_timeout;
    m.source = source;
    m.destination = destination;
    m.data = with_header(header, id.local.data, roce::request_field_size);
    id.link->exchange.request(m, clock::now());
    update_timer(*id.link);
    return 0;
}

void adopt_path(cm_id &id)
{
    id.path_mtu = roce_connect::max_path_mtu(detail::address_of_peer(id).grh.sgid_index);
    id.path_ack_timeout = roce_connect::usual_ack_timeout;
}

int join(cm_id &id)
{
    const auto qp = id.local_qp.lock();
    if (qp == nullptr)
        return 0;
    const int error = roce_connect::join(*qp);
    if (error == 0)
        id.local.qpn = qp->roce_number;
    return error;
}

void leave(cm_id &id)
{
    if (const auto qp = id.link == nullptr ? nullptr : id.local_qp.lock(); qp != nullptr)
        roce_connect::leave(*qp);
}

namespace
{

// Hosts limit the rate of their reports: Linux sends one in a second for each peer.
constexpr auto report_interval = std::chrono::seconds(1);
// Time for the first message of the peer, which answers the third repetition of the request.
constexpr auto first_response_limit = std::chrono::milliseconds(500);

void reject_without_listener(cm_id &id) REQUIRES(lock())
{
    detail::rejected(id, reject_reason::invalid_service_id, {.size = reject_private_size});
}

void expect_response(const std::shared_ptr<roce_link> &link) REQUIRES(lock())
{
    event_loop::get()->after(first_response_limit, [weak = std::weak_ptr(link)] {
        const lock_guard guard(lock());
        const auto silent = weak.lock();
        cm_id *id = silent == nullptr || silent->has_responded ? nullptr : detail::find_id(silent->id);
        if (id == nullptr)
            return;
        silent->id = 0;
        silent->exchange.abandon(clock::now());
        update_timer(*silent);
        reject_without_listener(*id);
    });
}

// Requests the connection that TCP has refused. The port is open. Returns false on error.
bool request_after_rejection(cm_id &id) REQUIRES(lock())
{
    adopt_path(id);
    if (join(id) != 0 || request(id) != 0)
        return false;
    log::write(log::level::info, "peer %s: TCP connection refused: requested over RoCE",
            text_of(id.route.addr.dst_storage).data());
    expect_response(id.link);
    return true;
}

// Runs in a thread of its own: other processes can delay the open, but not the progress thread.
void open_and_request() noexcept
{
    bool is_open = false;
    try {
        is_open = open();
    } catch (const std::bad_alloc &) { // refuses all
    }
    const lock_guard guard(lock());
    for (const std::uint64_t serial : std::exchange(state().waiting, {})) {
        cm_id *id = detail::find_id(serial);
        if (id == nullptr || id->state != cm_state::connecting)
            continue;
        bool is_requested = false;
        try {
            is_requested = is_open && request_after_rejection(*id);
        } catch (const std::bad_alloc &) {
        }
        if (!is_requested)
            reject_without_listener(*id);
    }
}

bool start_opening()
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = true;
    try {
        std::thread(open_and_request).detach();
    } catch (const std::system_error &) {
        is_started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return is_started;
}

} // namespace

void probe(cm_id &id)
{
    if (!roce_connect::follows_rejection() || detail::is_datagram(id))
        return;
    auto &probes = state().probes;
    const auto now = clock::now();
    std::erase_if(probes, [now](const auto &entry) { return now - entry.second.sent >= report_interval; });
    const auto [host, is_new] = probes.try_emplace(std::bit_cast<network_address>(id.route.addr.addr.ibaddr.dgid));
    if (is_new)
        host->second = {now, roce::probe(id.route.addr.src_storage, id.route.addr.dst_storage)};
}

bool follow_rejection(cm_id &id)
{
    if (!roce_connect::follows_rejection() || detail::is_datagram(id))
        return false;
    const auto host = state().probes.find(std::bit_cast<network_address>(id.route.addr.addr.ibaddr.dgid));
    if (host != state().probes.end()) {
        host_probe &probe = host->second;
        probe.is_closed = probe.is_closed || roce::is_closed(probe.socket);
        if (probe.is_closed)
            return false;
    }
    if (state().port != nullptr)
        return request_after_rejection(id);
    state().waiting.push_back(id.serial);
    if (state().waiting.size() > 1 || start_opening())
        return true;
    state().waiting.clear();
    return false;
}

void reply(cm_id &id)
{
    cm_mad m = parameters_of(id);
    if (detail::is_datagram(id)) {
        m.service_id = service_of(id, id.route.addr.src_storage);
        m.qkey = RDMA_UDP_QKEY;
    } else if (id.link->exchange.is_of_own_device()) {
        roce_connect::group_packets(id.local.qpn);
    }
    id.link->exchange.reply(m, clock::now());
    update_timer(*id.link);
}

void ready(cm_id &id)
{
    if (id.link->exchange.is_of_own_device())
        roce_connect::group_packets(id.local.qpn);
    id.link->exchange.ready(clock::now());
    update_timer(*id.link);
}

void reject(cm_id &id, const cm_rejection &rejection)
{
    id.link->exchange.reject(static_cast<std::uint16_t>(rejection.reason), rejection.data);
    update_timer(*id.link);
}

void disconnect(cm_id &id)
{
    id.link->exchange.disconnect(clock::now());
    update_timer(*id.link);
}

void confirm_disconnect(cm_id &id)
{
    id.link->exchange.confirm_disconnect();
    update_timer_or_forget(*id.link);
}

void abandon(cm_id &id)
{
    const auto link = std::exchange(id.link, nullptr);
    link->id = 0;
    link->exchange.abandon(clock::now());
    update_timer_or_forget(*link);
}

} // namespace softrdma::cm::over_roce

// SPDX-License-Identifier: BSD-3-Clause
#include "cm/static_connect.hpp"
#include "base/descriptors.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/port_numbers.hpp"
#include "transport/tcp/tcp_socket.hpp"
#include "wire/cm_message.hpp"
#include "base/process.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::static_connect
{

namespace
{

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto first_pause = milliseconds(1);
constexpr auto max_pause = milliseconds(64);

struct connection final : handshake, std::enable_shared_from_this<connection> {
    bool received(const packet &p) override REQUIRES(cm::lock());
    void lost(const std::shared_ptr<packet_receiver> &carried, int error) override REQUIRES(cm::lock());
    void send_address(const shm_address &local_address) override REQUIRES(cm::lock());
    void searched() override REQUIRES(cm::lock());
    bool takes(const direct_handshake &from_peer) const REQUIRES(cm::lock());

    std::uint32_t number = 0; // number of the local queue pair
    std::uint32_t remote = 0;
    ibv_gid peer{};
    sockaddr_storage source{};
    sockaddr_storage destination{};
    bool joined = false;
    bool was_sending = false;
    std::uint32_t served_before = 0; // earlier count of its peer, see registry::served
    unsigned extensions = 0;         // extensions of its time, because the peer served others
    milliseconds pause = first_pause;
    // Retries the connection until it is joined; then reports its loss. Empty while it is deferred.
    reserve::prepared_call later;
};

struct registry {
    port_numbers numbers GUARDED_BY(cm::lock());
    std::unordered_map<std::uint32_t, std::shared_ptr<connection>> connections GUARDED_BY(cm::lock());
    // Connections that were established, by the port and host of their peer. Two peers may share a count.
    std::array<std::uint32_t, 256> served GUARDED_BY(cm::lock()){};

    connection *find(std::uint32_t number) REQUIRES(cm::lock())
    {
        const auto found = connections.find(number);
        return found == connections.end() ? nullptr : found->second.get();
    }
};

constinit process::single<registry> the_registry;

registry &state()
{
    return the_registry.get();
}

std::uint32_t &served_count(const connection &c) REQUIRES(cm::lock())
{
    auto &served = state().served;
    return served[(c.remote >> 8 ^ c.peer.raw[15]) % served.size()];
}

void try_connecting(connection &c) REQUIRES(cm::lock());

void retry_later(connection &c) REQUIRES(cm::lock())
{
    c.path.reset();
    event_loop::get()->defer(std::move(c.later), c.pause);
    c.pause = std::min(2 * c.pause, max_pause);
}

reserve::prepared_call prepare_later(const std::shared_ptr<connection> &of)
{
    return reserve::prepared_call([weak = std::weak_ptr(of)](reserve::prepared_call &own) {
        const lock_guard guard(cm::lock());
        const auto c = weak.lock();
        if (c == nullptr)
            return;
        c->later = std::move(own);
        if (!c->joined)
            return try_connecting(*c);
        if (const auto qp = c->local_qp.lock(); qp != nullptr)
            qp->path_lost(c->path.get());
    });
}

void try_connecting(connection &c)
{
    const auto *from = reinterpret_cast<const sockaddr *>(&c.source);
    unique_fd fd(socket(from->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.get() < 0 && (errno == EMFILE || errno == ENFILE))
        descriptors::exhausted(errno);
    if (bind(fd.get(), from, cm::detail::address_size(from)) != 0 || c.open_path(std::move(fd), c.destination) != 0)
        return retry_later(c);
    c.begin();
}

void connection::send_address(const shm_address &local_address)
{
    path->send_control(active ? opcode::direct_request : opcode::direct_reply,
            encode(direct_handshake{number, remote, local_address}));
}

bool connection::takes(const direct_handshake &from_peer) const
{
    return !joined && !is_searching() && from_peer.from == remote && from_peer.to == number;
}

bool connection::received(const packet &p)
{
    direct_handshake reply;
    if (p.op == opcode::direct_ready)
        return take_decision(p);
    if (!active || p.op != opcode::direct_reply || !decode(p.payload, reply) || !takes(reply))
        return false;
    if (search(reply.shm_address))
        searched();
    return true;
}

void connection::searched()
{
    if (active && fails())
        return path->cut(); // retries after the cut
    if (!active)
        respond();
    joined = join();
    served_count(*this) += joined ? 1 : 0;
    if (active) {
        decide();
        send_decision(opcode::direct_ready);
    }
    if (const auto qp = local_qp.lock(); qp != nullptr)
        qp->receiver()->path_writable();
}

void connection::lost(const std::shared_ptr<packet_receiver> &carried, int)
{
    if (!joined && active)
        return retry_later(*this);
    if (!joined) // the peer reconnects
        return path.reset();
    log::write(log::level::info, "connection to queue pair %u of peer %s: closed", remote, text_of(destination).data());
    const auto qp = carried == nullptr ? nullptr : local_qp.lock();
    const auto wait = qp == nullptr ? microseconds(0) : qp->retry_timeout();
    event_loop::get()->defer(std::move(later), wait);
}

microseconds retry_timeout_of(const ibv_qp_attr &attr)
{
    constexpr microseconds min_timeout = std::chrono::seconds(5); // a busy peer must not count as lost
    const microseconds max_timeout = settings().response_timeout;
    return std::clamp(retry_time(attr), std::min(min_timeout, max_timeout), max_timeout);
}

// Extends the timeout while the peer establishes other connections, one after the other.
bool is_being_served(connection &c) REQUIRES(cm::lock())
{
    constexpr unsigned max_extensions = 20;
    const std::uint32_t served = served_count(c);
    const bool serves = std::exchange(c.served_before, served) != served;
    return serves && c.extensions++ < max_extensions;
}

// Reports an unreachable peer if two checks found unsent requests and no path, unless its memory is being searched.
void check_progress(const std::weak_ptr<connection> &weak, microseconds retry_timeout)
{
    const lock_guard guard(cm::lock());
    const auto c = weak.lock();
    const auto qp = c == nullptr || c->joined ? nullptr : c->local_qp.lock();
    if (qp == nullptr)
        return;
    const bool sending = qp->sending();
    const bool is_served = is_being_served(*c) || c->is_searching();
    if (sending && c->was_sending && !is_served)
        qp->path_lost(nullptr);
    c->was_sending = sending;
    event_loop::get()->after(retry_timeout, [=] { check_progress(weak, retry_timeout); });
}

bool forget(std::uint32_t number) REQUIRES(cm::lock())
{
    connection *c = state().find(number);
    if (c == nullptr)
        return false;
    if (c->path != nullptr)
        c->path->bind(nullptr, 0); // the queue pair may be reconnected before the notification
    c->end_path();
    state().connections.erase(number);
    return true;
}

std::shared_ptr<connection> describe(queue_pair &qp) REQUIRES(cm::lock())
{
    const ibv_qp_attr attr = qp.attributes();
    const ibv_ah_attr &av = attr.ah_attr;
    auto c = std::make_shared<connection>();
    c->later = prepare_later(c);
    c->local_qp = qp.weak_from_this();
    c->number = qp.verbs()->qp_num;
    c->remote = attr.dest_qp_num;
    // On Ethernet, an address without a GRH can only mean this host.
    reinterpret_cast<sockaddr_in &>(c->source) = {
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    c->destination = c->source;
    if (av.is_global != 0) {
        const gid_entry &source = gid_table()[av.grh.sgid_index];
        c->source = address_of(source.gid, source.interface);
        c->destination = address_of(av.grh.dgid, source.interface);
    } else if (own_lid() != 0) {
        c->source = address_of(lid_entry().gid, 0);
        c->destination = address_of(gid_of_lid(av.dlid), 0);
    }
    c->peer = gid_of(c->destination);
    const ibv_gid local = gid_of(c->source);
    c->active = c->number != c->remote ? c->number > c->remote : memcmp(local.raw, c->peer.raw, sizeof(local.raw)) > 0;
    port_of(c->destination) = htons(static_cast<std::uint16_t>(c->remote >> 8));
    return c;
}

} // namespace

std::uint32_t reserve_number()
{
    const lock_guard guard(cm::lock());
    return state().numbers.reserve();
}

void release_number(std::uint32_t number)
{
    if (the_registry.if_created() == nullptr) // no number is reserved
        return;
    const lock_guard guard(cm::lock());
    forget(number);
    state().numbers.release(number);
}

bool received_request(const std::shared_ptr<tcp_conn> &path, const packet &p)
{
    direct_handshake request;
    if (path->tag != 0 || !decode(p.payload, request))
        return false;
    const sockaddr_storage peer = tcp_socket::addresses_of(path->fd()).remote;
    connection *c = state().find(request.to);
    if (c == nullptr || c->active || !c->takes(request) || !same(gid_of(peer), c->peer)) {
        log::write(log::level::debug, "peer %s: queue pair %u is not ready to connect (the peer retries)",
                text_of(peer).data(), request.to);
        path->cut(); // the peer retries
        return true;
    }
    c->attach_path(path);
    if (c->search(request.shm_address))
        c->searched();
    return true;
}

int check(const ibv_ah_attr &address) noexcept
{
    return address.is_global == 0 || address.grh.sgid_index < gid_table().size() ? 0 : EINVAL;
}

void connect(queue_pair &qp)
{
    const lock_guard guard(cm::lock());
    const auto c = describe(qp);
    // A queue pair of the connection manager has a path already, or gets it when the program accepts the request.
    if (qp.has_path() || cm::expects(c->remote, c->peer) || !state().numbers.has(c->number) ||
            state().find(c->number) != nullptr)
        return;
    state().connections.emplace(c->number, c);
    qp.expect_path();
    if (c->active && c->remote >> 8 != 0)
        try_connecting(*c);
}

void limit_retry_timeout(queue_pair &qp)
{
    const ibv_qp_attr attr = qp.attributes();
    if (attr.timeout == 0) // no limit
        return;
    const lock_guard guard(cm::lock());
    connection *c = state().find(qp.verbs()->qp_num);
    if (c == nullptr || c->joined)
        return;
    const auto retry_timeout = retry_timeout_of(attr);
    event_loop::get()->after(
            retry_timeout, [weak = c->weak_from_this(), retry_timeout] { check_progress(weak, retry_timeout); });
}

void disconnect(queue_pair &qp)
{
    const lock_guard guard(cm::lock());
    if (forget(qp.verbs()->qp_num))
        qp.attach(nullptr);
}

} // namespace softrdma::static_connect

// SPDX-License-Identifier: BSD-3-Clause
#include "cm/static_connect.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/port_numbers.hpp"
#include "cm/unknown_callers.hpp"
#include "transport/shm/discovery.hpp"
#include "transport/tcp/rc_transport.hpp"
#include "transport/tcp/tcp_socket.hpp"
#include "wire/cm_message.hpp"
#include "base/process.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::net::static_connect
{

namespace
{

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto first_pause = milliseconds(1);
constexpr auto longest_pause = milliseconds(64);

struct connection {
    std::weak_ptr<queue_pair> qp;
    std::uint32_t local = 0;
    std::uint32_t remote = 0;
    ibv_gid peer{};
    sockaddr_storage source{};
    sockaddr_storage destination{};
    bool active = false;
    bool joined = false;
    discovery::shm_ep_ptr ep;   // to the peer's queue pair, until both sides have agreed on it
    local::obstacle obstacle{}; // why there is none
    bool discovering = false;
    bool was_sending = false;
    milliseconds pause = first_pause;
    std::uint64_t serial = 0; // tells timers of an earlier connection of the same queue pair
    std::shared_ptr<tcp_conn> path;
};

// Never destroyed: the progress thread may run until the very end of the process.
struct registry {
    ordered_mutex lock{lock_level::connecting};
    std::uint64_t next_serial GUARDED_BY(lock) = 1;
    port_numbers numbers GUARDED_BY(lock);
    unknown_callers callers GUARDED_BY(lock);
    std::unordered_map<std::uint32_t, connection> connections GUARDED_BY(lock);

    connection *find(std::uint64_t number, std::uint64_t serial) REQUIRES(lock)
    {
        const auto found = connections.find(static_cast<std::uint32_t>(number));
        return found == connections.end() || found->second.serial != serial ? nullptr : &found->second;
    }
};

constinit process::single<registry> the_registry;

registry &state()
{
    return the_registry.get();
}

class conn_upcalls : public tcp_conn_user
{
public:
    void connected(const std::shared_ptr<tcp_conn> &path) override;
    void lost(const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<queue_pair> &qp, int error) override;
    bool received(const std::shared_ptr<tcp_conn> &path, const packet &p) override;
};

tcp_conn_user &upcalls()
{
    static auto *const user = new conn_upcalls;
    return *user;
}

void try_connecting(connection &c);

void try_later(connection &c)
{
    c.path.reset();
    event_loop::get()->after(c.pause, [number = c.local, serial = c.serial] {
        const lock_guard guard(state().lock);
        if (connection *again = state().find(number, serial))
            try_connecting(*again);
    });
    c.pause = std::min(2 * c.pause, longest_pause);
}

void try_connecting(connection &c)
{
    const auto *from = reinterpret_cast<const sockaddr *>(&c.source);
    const auto *to = reinterpret_cast<const sockaddr *>(&c.destination);
    local::unique_fd fd(socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (bind(fd.get(), from, cm::detail::address_size(from)) != 0 ||
            (::connect(fd.get(), to, cm::detail::address_size(to)) != 0 && errno != EINPROGRESS))
        return try_later(c);
    try {
        c.path = tcp_conn::open(fd.release(), tcp_conn::role::connecting, upcalls());
    } catch (const std::bad_alloc &) {
        return try_later(c);
    }
    if (c.path == nullptr)
        return try_later(c);
    c.path->tag = c.local;
}

void join(connection &c)
{
    const auto qp = c.qp.lock();
    if (qp == nullptr)
        return;
    c.joined = true;
    c.path->bind(qp, c.local);
    qp->attach(c.path);
    if (c.ep != nullptr && !c.active)
        qp->suspend();
    else if (c.ep != nullptr)
        qp->select_transport(std::move(c.ep));
    rc_transport::of(*qp).path_writable();
}

// What the peer is told of our queue pair.
local::shm_address own_shm_address(const connection &c, const tcp_conn &path)
{
    const auto qp = c.qp.lock();
    return qp == nullptr ? local::shm_address{} : discovery::own_shm_address(*qp, path);
}

// Once discovery has ended: the passive side answers whether there is one, the active side then
// decides for both. False if there is none and has to be one.
bool go_on(connection &c, bool peer_has_ep)
{
    const bool has_ep = c.ep != nullptr;
    local::shm_address own;
    if (has_ep && !c.active)
        own = own_shm_address(c, *c.path);
    else
        own.why_absent = c.obstacle;
    if (const auto qp = c.qp.lock(); qp != nullptr)
        has_ep ? qp->expect(c.ep) : qp->note_obstacle(c.obstacle);
    if (!c.active) {
        c.path->tell(opcode::direct_reply, encode(direct_handshake{c.local, c.remote, own}));
    } else if (peer_has_ep) {
        c.path->tell(opcode::direct_ready, encode(shm_decision{has_ep, c.obstacle}));
    }
    if (!has_ep)
        log::write(log::level::info, "TCP carries everything between here and queue pair %u at %s: %s", c.remote,
                text_of(c.destination).data(), text_of(c.obstacle));
    if (c.active && !has_ep && discovery::required())
        return false;
    join(c);
    return true;
}

void go_on_later(std::uint32_t number, std::uint64_t serial, discovery::shm_ep_ptr found)
{
    const lock_guard guard(state().lock);
    connection *c = state().find(number, serial);
    if (c == nullptr || !std::exchange(c->discovering, false))
        return;
    c->ep = std::move(found);
    c->obstacle = local::obstacle::refused;
    if (go_on(*c, true))
        c->path->unhold();
    else
        c->path->cut();
}

bool discover(connection &c, const local::shm_address &shm_address)
{
    c.obstacle = shm_address.why_absent;
    if (shm_address.present || discovery::required())
        c.discovering = discovery::reach(shm_address, *c.path, c.ep, c.obstacle,
                [number = c.local, serial = c.serial](
                        discovery::shm_ep_ptr found) { go_on_later(number, serial, std::move(found)); });
    if (!c.discovering)
        return go_on(c, shm_address.present);
    c.path->hold();
    return true;
}

bool take_decision(const std::shared_ptr<tcp_conn> &path, const packet &p) REQUIRES(state().lock)
{
    shm_decision decision;
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found == state().connections.end() || found->second.path != path || found->second.active ||
            !decode(p.payload, decision))
        return false;
    const auto ep = std::exchange(found->second.ep, nullptr);
    if (const auto qp = found->second.qp.lock(); ep != nullptr && qp != nullptr) {
        qp->select_transport(decision.shares ? ep : nullptr);
        if (!decision.shares)
            qp->note_obstacle(decision.why);
    }
    return true;
}

void conn_upcalls::connected(const std::shared_ptr<tcp_conn> &path)
{
    const lock_guard guard(state().lock);
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found != state().connections.end() && found->second.path == path)
        path->tell(opcode::direct_request, encode(direct_handshake{found->second.local, found->second.remote,
                                                   own_shm_address(found->second, *path)}));
}

void conn_upcalls::lost(const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<queue_pair> &qp, int)
{
    const auto retry_timeout = qp == nullptr ? microseconds(0) : qp->retry_timeout();
    const lock_guard guard(state().lock);
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found == state().connections.end() || found->second.path != path)
        return;
    connection &c = found->second;
    c.discovering = false;
    if (!c.joined && c.active)
        return try_later(c);
    if (!c.joined) // the peer will
        return c.path.reset();
    log::write(log::level::info, "the connection to queue pair %u at %s has ended", c.remote,
            text_of(c.destination).data());
    event_loop::get()->after(retry_timeout, [number = c.local, serial = c.serial] {
        const lock_guard relock(state().lock);
        const connection *lost = state().find(number, serial);
        if (const auto owner = lost == nullptr ? nullptr : lost->qp.lock())
            owner->path_lost();
    });
}

bool conn_upcalls::received(const std::shared_ptr<tcp_conn> &path, const packet &p)
{
    const lock_guard guard(state().lock);
    if (p.op == opcode::direct_ready)
        return take_decision(path, p);
    direct_handshake g;
    if (!decode(p.payload, g))
        return false;
    const auto found = state().connections.find(g.to);
    if (found == state().connections.end())
        return false;
    connection &c = found->second;
    if (c.joined || c.discovering || c.remote != g.from || c.active != (p.op == opcode::direct_reply))
        return false;
    if (c.active)
        return c.path == path && discover(c, g.shm_address);
    if (!state().callers.remove(path) || !same(gid_of(tcp_socket::addresses_of(path->fd()).there), c.peer))
        return false;
    c.path = path;
    path->tag = c.local;
    return discover(c, g.shm_address);
}

milliseconds incoming(int socket)
{
    const lock_guard guard(state().lock);
    const auto path = tcp_conn::open(socket, tcp_conn::role::accepted, upcalls());
    if (path == nullptr)
        return milliseconds(0);
    event_loop::get()->after(unknown_callers::first_message_time, [weak = std::weak_ptr(path)] {
        const lock_guard relock(state().lock);
        if (const auto silent = weak.lock(); silent != nullptr && state().callers.remove(silent))
            silent->finish();
    });
    return state().callers.add(path);
}

microseconds retry_timeout_of(const ibv_qp_attr &attr)
{
    constexpr microseconds least = std::chrono::seconds(1); // a busy machine is no dead peer
    const microseconds most = settings().response_timeout;
    return std::clamp(retry_time(attr), std::min(least, most), most);
}

// What is still to be sent when two looks in a row have found it, and no path, has waited long enough.
void look_for_progress(std::uint32_t number, std::uint64_t serial, microseconds retry_timeout)
{
    const lock_guard guard(state().lock);
    connection *c = state().find(number, serial);
    const auto qp = c == nullptr || c->joined ? nullptr : c->qp.lock();
    if (qp == nullptr)
        return;
    const bool sending = qp->sending();
    if (sending && c->was_sending)
        qp->path_lost();
    c->was_sending = sending;
    event_loop::get()->after(retry_timeout, [=] { look_for_progress(number, serial, retry_timeout); });
}

bool forget(std::uint32_t number) REQUIRES(state().lock)
{
    const auto found = state().connections.find(number);
    if (found == state().connections.end())
        return false;
    if (const auto path = found->second.path; path != nullptr) {
        path->bind(nullptr, 0); // the queue pair may be connected anew before it could be told of the end
        path->finish();
    }
    state().connections.erase(found);
    return true;
}

connection describe(queue_pair &qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    qp.query(attr, init);
    const ibv_ah_attr &av = attr.ah_attr;
    const auto &table = gid_table();
    connection c;
    c.qp = qp.weak_from_this();
    c.local = qp.verbs()->qp_num;
    c.remote = attr.dest_qp_num;
    // Without a global address only this host can be meant.
    reinterpret_cast<sockaddr_in &>(c.source) = {
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    c.destination = c.source;
    if (av.is_global != 0) {
        const gid_entry &here = table[av.grh.sgid_index];
        c.source = address_of(here.gid, here.interface);
        c.destination = address_of(av.grh.dgid, here.interface);
    }
    c.peer = gid_of(c.destination);
    const ibv_gid own = gid_of(c.source);
    c.active = c.local != c.remote ? c.local > c.remote : memcmp(own.raw, c.peer.raw, sizeof(own.raw)) > 0;
    port_of(c.destination) = htons(static_cast<std::uint16_t>(c.remote >> 8));
    return c;
}

} // namespace

std::uint32_t reserve_number()
{
    const lock_guard guard(state().lock);
    return state().numbers.reserve(incoming);
}

void release_number(std::uint32_t number)
{
    if (the_registry.if_made() == nullptr) // nothing is reserved
        return;
    const lock_guard guard(state().lock);
    forget(number);
    state().numbers.release(number);
}

int check(const ibv_ah_attr &address) noexcept
{
    return address.is_global == 0 || address.grh.sgid_index < gid_table().size() ? 0 : EINVAL;
}

void connect(queue_pair &qp)
{
    connection c = describe(qp);
    // The path of a queue pair that a program moves by itself may be the connection manager's: it is there already, or
    // comes when the program accepts the request.
    if (qp.has_path() || cm::expects(c.remote, c.peer))
        return;
    const lock_guard guard(state().lock);
    if (!state().numbers.has(c.local) || state().connections.contains(c.local))
        return;
    c.serial = state().next_serial++;
    connection &kept = state().connections.emplace(c.local, std::move(c)).first->second;
    if (kept.active && kept.remote >> 8 != 0)
        try_connecting(kept);
}

void limit_retry_timeout(queue_pair &qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    qp.query(attr, init);
    if (attr.timeout == 0) // waits for ever
        return;
    const lock_guard guard(state().lock);
    const auto found = state().connections.find(qp.verbs()->qp_num);
    if (found == state().connections.end() || found->second.joined)
        return;
    const auto retry_timeout = retry_timeout_of(attr);
    event_loop::get()->after(retry_timeout, [number = found->first, serial = found->second.serial, retry_timeout] {
        look_for_progress(number, serial, retry_timeout);
    });
}

void disconnect(queue_pair &qp)
{
    const lock_guard guard(state().lock);
    if (forget(qp.verbs()->qp_num))
        qp.attach(nullptr);
}

} // namespace softrdma::net::static_connect

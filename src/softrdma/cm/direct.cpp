// SPDX-License-Identifier: BSD-3-Clause
#include "cm/direct.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/port_numbers.hpp"
#include "cm/unknown_callers.hpp"
#include "transport/shm/neighbour.hpp"
#include "transport/tcp/tcp_socket.hpp"
#include "bytes.hpp"
#include "base/process.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::net::direct
{

namespace
{

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t magic = 0x736f667472646d61; // "softrdma"
constexpr std::uint8_t version = 1;
constexpr auto first_pause = milliseconds(1);
constexpr auto longest_pause = milliseconds(64);

// Payload of direct_request and direct_reply.
struct greeting {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    local::hello hello;
};

struct connection {
    std::weak_ptr<queue_pair> qp;
    std::uint32_t local = 0;
    std::uint32_t remote = 0;
    ibv_gid peer{};
    sockaddr_storage source{};
    sockaddr_storage destination{};
    bool active = false;
    bool joined = false;
    neighbour::way way; // to the peer's queue pair, until both sides have agreed on it
    bool looks_for_way = false;
    bool was_sending = false;
    milliseconds pause = first_pause;
    std::uint64_t serial = 0; // tells timers of an earlier connection of the same queue pair
    std::shared_ptr<link> path;
};

// Never destroyed: the agent may run until the very end of the process.
struct registry {
    std::mutex lock;
    std::uint64_t next_serial = 1;
    port_numbers numbers;
    unknown_callers callers;
    std::unordered_map<std::uint32_t, connection> connections;

    connection *find(std::uint64_t number, std::uint64_t serial)
    {
        const auto found = connections.find(static_cast<std::uint32_t>(number));
        return found == connections.end() || found->second.serial != serial ? nullptr : &found->second;
    }
};

registry &state()
{
    static constinit process::single<registry> r;
    return r.get();
}

class link_upcalls : public link_user
{
public:
    void connected(const std::shared_ptr<link> &path) override;
    void lost(const std::shared_ptr<link> &path, const std::shared_ptr<queue_pair> &qp, int error) override;
    bool received(const std::shared_ptr<link> &path, const packet &p) override;
};

link_user &upcalls()
{
    static auto *const user = new link_upcalls;
    return *user;
}

void greet(link &path, opcode op, const greeting &g)
{
    std::array<std::byte, 192> bytes;
    byte_writer w(bytes.data());
    w.put(magic).put(version).put(g.from).put(g.to);
    neighbour::put(w, g.hello);
    path.tell(op, {bytes.data(), w.size()});
}

bool read_greeting(std::span<const std::byte> payload, greeting &g) noexcept
{
    byte_reader r(payload);
    if (r.get<std::uint64_t>() != magic || r.get<std::uint8_t>() != version)
        return false;
    g.from = r.get<std::uint32_t>();
    g.to = r.get<std::uint32_t>();
    return r.good() && neighbour::get(r, g.hello);
}

void try_connecting(connection &c);

void try_later(connection &c)
{
    c.path.reset();
    agent::get()->after(c.pause, [number = c.local, serial = c.serial] {
        const std::lock_guard guard(state().lock);
        if (connection *again = state().find(number, serial))
            try_connecting(*again);
    });
    c.pause = std::min(2 * c.pause, longest_pause);
}

void try_connecting(connection &c)
{
    const auto *from = reinterpret_cast<const sockaddr *>(&c.source);
    const auto *to = reinterpret_cast<const sockaddr *>(&c.destination);
    const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return try_later(c);
    if (bind(fd, from, cm::detail::address_size(from)) != 0 ||
            (::connect(fd, to, cm::detail::address_size(to)) != 0 && errno != EINPROGRESS)) {
        close(fd);
        return try_later(c);
    }
    c.path = link::open(fd, link::role::connecting, upcalls());
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
    if (c.way != nullptr && !c.active)
        qp->hold_back();
    else if (c.way != nullptr)
        qp->decide(std::move(c.way));
    qp->path_writable();
}

// What the peer is told of our queue pair.
local::hello introduce(const connection &c, const link &path)
{
    const auto qp = c.qp.lock();
    return qp == nullptr ? local::hello{} : neighbour::introduce(*qp, path);
}

// Once the way to the peer has been looked for: the passive side answers whether there is one, the active side then
// decides for both. False if there is none and has to be one.
bool go_on(connection &c, bool peer_has_way)
{
    const bool has_way = c.way != nullptr;
    const local::hello own = has_way && !c.active ? introduce(c, *c.path) : local::hello{};
    if (const auto qp = c.qp.lock(); has_way && qp != nullptr)
        qp->expect(c.way);
    if (!c.active) {
        greet(*c.path, opcode::direct_reply, {c.local, c.remote, own});
    } else if (peer_has_way) {
        const std::byte agreed{has_way};
        c.path->tell(opcode::direct_ready, {&agreed, 1});
    }
    if (!has_way)
        log::write(log::level::info, "TCP carries everything between here and queue pair %u at %s", c.remote,
                tcp_socket::text_of(c.destination).c_str());
    if (c.active && !has_way && neighbour::required())
        return false;
    join(c);
    return true;
}

void go_on_later(std::uint32_t number, std::uint64_t serial, neighbour::way found)
{
    const std::lock_guard guard(state().lock);
    connection *c = state().find(number, serial);
    if (c == nullptr || !std::exchange(c->looks_for_way, false))
        return;
    c->way = std::move(found);
    if (go_on(*c, true))
        c->path->unhold();
    else
        c->path->cut();
}

bool look_for_way(connection &c, const local::hello &hello)
{
    if (hello.present || neighbour::required())
        c.looks_for_way =
                neighbour::reach(hello, *c.path, c.way, [number = c.local, serial = c.serial](neighbour::way found) {
                    go_on_later(number, serial, std::move(found));
                });
    if (!c.looks_for_way)
        return go_on(c, hello.present);
    c.path->hold();
    return true;
}

bool take_decision(const std::shared_ptr<link> &path, const packet &p)
{
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found == state().connections.end() || found->second.path != path || found->second.active ||
            p.payload.size() != 1)
        return false;
    const auto way = std::exchange(found->second.way, nullptr);
    if (const auto qp = found->second.qp.lock(); way != nullptr && qp != nullptr)
        qp->decide(p.payload[0] != std::byte{0} ? way : nullptr);
    return true;
}

void link_upcalls::connected(const std::shared_ptr<link> &path)
{
    const std::lock_guard guard(state().lock);
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found != state().connections.end() && found->second.path == path)
        greet(*path, opcode::direct_request,
                {found->second.local, found->second.remote, introduce(found->second, *path)});
}

void link_upcalls::lost(const std::shared_ptr<link> &path, const std::shared_ptr<queue_pair> &qp, int)
{
    const auto patience = qp == nullptr ? microseconds(0) : qp->patience();
    const std::lock_guard guard(state().lock);
    const auto found = state().connections.find(static_cast<std::uint32_t>(path->tag));
    if (found == state().connections.end() || found->second.path != path)
        return;
    connection &c = found->second;
    c.looks_for_way = false;
    if (!c.joined && c.active)
        return try_later(c);
    if (!c.joined) // the peer will
        return c.path.reset();
    log::write(log::level::info, "the connection to queue pair %u at %s has ended", c.remote,
            tcp_socket::text_of(c.destination).c_str());
    agent::get()->after(patience, [number = c.local, serial = c.serial] {
        const std::lock_guard relock(state().lock);
        const connection *lost = state().find(number, serial);
        if (const auto owner = lost == nullptr ? nullptr : lost->qp.lock())
            owner->path_lost();
    });
}

bool link_upcalls::received(const std::shared_ptr<link> &path, const packet &p)
{
    const std::lock_guard guard(state().lock);
    if (p.op == opcode::direct_ready)
        return take_decision(path, p);
    greeting g;
    if (!read_greeting(p.payload, g))
        return false;
    const auto found = state().connections.find(g.to);
    if (found == state().connections.end())
        return false;
    connection &c = found->second;
    if (c.joined || c.looks_for_way || c.remote != g.from || c.active != (p.op == opcode::direct_reply))
        return false;
    if (c.active)
        return c.path == path && look_for_way(c, g.hello);
    if (!state().callers.remove(path) || !same(gid_of(tcp_socket::addresses_of(path->fd()).there), c.peer))
        return false;
    c.path = path;
    path->tag = c.local;
    return look_for_way(c, g.hello);
}

milliseconds incoming(int socket)
{
    const std::lock_guard guard(state().lock);
    const auto path = link::open(socket, link::role::accepted, upcalls());
    if (path == nullptr)
        return milliseconds(0);
    agent::get()->after(unknown_callers::first_message_time, [weak = std::weak_ptr(path)] {
        const std::lock_guard relock(state().lock);
        if (const auto silent = weak.lock(); silent != nullptr && state().callers.remove(silent))
            silent->finish();
    });
    return state().callers.add(path);
}

microseconds patience_of(const ibv_qp_attr &attr)
{
    constexpr microseconds least = std::chrono::seconds(1); // a busy machine is no dead peer
    const auto once = std::chrono::duration_cast<microseconds>(std::chrono::nanoseconds(4096ll << attr.timeout));
    const microseconds most = settings().response_timeout;
    return std::clamp(once * (attr.retry_cnt + 1), std::min(least, most), most);
}

// What is still to be sent when two looks in a row have found it, and no path, has waited long enough.
void look_for_progress(std::uint32_t number, std::uint64_t serial, microseconds patience)
{
    const std::lock_guard guard(state().lock);
    connection *c = state().find(number, serial);
    const auto qp = c == nullptr || c->joined ? nullptr : c->qp.lock();
    if (qp == nullptr)
        return;
    const bool sending = qp->sending();
    if (sending && c->was_sending)
        qp->path_lost();
    c->was_sending = sending;
    agent::get()->after(patience, [=] { look_for_progress(number, serial, patience); });
}

bool forget(std::uint32_t number)
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
    const std::lock_guard guard(state().lock);
    return state().numbers.reserve(incoming);
}

void release_number(std::uint32_t number)
{
    const std::lock_guard guard(state().lock);
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
    const std::lock_guard guard(state().lock);
    if (!state().numbers.has(c.local) || state().connections.contains(c.local))
        return;
    c.serial = state().next_serial++;
    connection &kept = state().connections.emplace(c.local, std::move(c)).first->second;
    if (kept.active && kept.remote >> 8 != 0)
        try_connecting(kept);
}

void limit_patience(queue_pair &qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    qp.query(attr, init);
    if (attr.timeout == 0) // waits for ever
        return;
    const std::lock_guard guard(state().lock);
    const auto found = state().connections.find(qp.verbs()->qp_num);
    if (found == state().connections.end() || found->second.joined)
        return;
    const auto patience = patience_of(attr);
    agent::get()->after(patience, [number = found->first, serial = found->second.serial, patience] {
        look_for_progress(number, serial, patience);
    });
}

void disconnect(queue_pair &qp)
{
    const std::lock_guard guard(state().lock);
    if (forget(qp.verbs()->qp_num))
        qp.attach(nullptr);
}

} // namespace softrdma::net::direct

// SPDX-License-Identifier: BSD-3-Clause
#include "cm/handshake.hpp"
#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/socket_address.hpp"
#include "cm/cm.hpp"
#include "cm/static_connect.hpp"
#include "progress/pending_peers.hpp"
#include "transport/tcp/tcp_socket.hpp"
#include "wire/cm_message.hpp"

#include <cerrno>
#include <sys/socket.h>

namespace softrdma
{

namespace
{

pending_peers &unauthenticated_peers() REQUIRES(cm::lock())
{
    static constinit process::single<pending_peers> all;
    return all.get();
}

handshake *owner_of(const tcp_conn &path) REQUIRES(cm::lock())
{
    return static_cast<handshake *>(path.owner);
}

void report_version(const tcp_conn &path, const packet &p)
{
    const unsigned version = version_of(p.payload);
    if (version != 0 && version != wire_version)
        log::write(log::level::warn,
                "the peer at %s: connection rejected: it has version %u of the protocol, this process version %u (use "
                "the same release of softrdma on both sides)",
                text_of(tcp_socket::addresses_of(path.fd()).remote).data(), version, unsigned{wire_version});
}

class conn_upcalls : public tcp_conn_user
{
public:
    void connected(const std::shared_ptr<tcp_conn> &path) override
    {
        const lock_guard guard(cm::lock());
        if (handshake *h = owner_of(*path); h != nullptr)
            h->send_address(h->own_address());
    }

    void lost(
            const std::shared_ptr<tcp_conn> &path, const std::shared_ptr<packet_receiver> &receiver, int error) override
    {
        const lock_guard guard(cm::lock());
        if (handshake *h = owner_of(*path); h != nullptr) {
            h->detach_path();
            h->lost(receiver, error);
        } else if (receiver != nullptr) {
            receiver->path_lost(*path);
        }
    }

    bool received(const std::shared_ptr<tcp_conn> &path, const packet &p) override
    {
        const lock_guard guard(cm::lock());
        report_version(*path, p);
        switch (p.op) {
        case opcode::cm_request:
        case opcode::resolve_request:
            return unauthenticated_peers().remove(path) && cm::detail::received_request(path, p);
        case opcode::direct_request:
            return unauthenticated_peers().remove(path) && static_connect::received_request(path, p);
        default:
            handshake *h = owner_of(*path);
            return h != nullptr && h->received(p);
        }
    }
};

tcp_conn_user &upcalls()
{
    static auto *const user = new conn_upcalls; // connections may outlive all other objects
    return *user;
}

} // namespace

std::chrono::milliseconds handshake::accepted(int socket, std::uint64_t tag)
{
    std::shared_ptr<tcp_conn> path;
    {
        const lock_guard guard(cm::lock());
        if (socket < 0)
            return unauthenticated_peers().pause();
        path = tcp_conn::open(socket, tcp_conn::role::accepted, upcalls());
        if (path == nullptr)
            return std::chrono::milliseconds(0);
        path->tag = tag;
        unauthenticated_peers().add(path);
    }
    // The first message has usually arrived if the peer opened many connections.
    try {
        path->poll();
    } catch (const std::bad_alloc &) {
        path->out_of_memory();
    }
    const lock_guard guard(cm::lock());
    return unauthenticated_peers().pause();
}

int handshake::open_path(unique_fd bound, const sockaddr_storage &peer)
{
    const auto *to = reinterpret_cast<const sockaddr *>(&peer);
    if (::connect(bound.get(), to, cm::detail::address_size(to)) != 0 && errno != EINPROGRESS)
        return errno;
    try {
        path = tcp_conn::open(bound.release(), tcp_conn::role::connecting, upcalls());
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
    if (path == nullptr)
        return errno;
    path->owner = this;
    return 0;
}

void handshake::begin()
{
    if (path->connects_at_once())
        send_address(own_address());
}

void handshake::attach_path(std::shared_ptr<tcp_conn> from_peer)
{
    SOFTRDMA_ASSERT(from_peer->owner == nullptr); // each path belongs to one handshake
    path = std::move(from_peer);
    path->owner = this;
}

bool handshake::join()
{
    const auto qp = local_qp.lock();
    if (qp == nullptr)
        return false;
    path->bind(qp->receiver(), qp->verbs()->qp_num);
    qp->attach(path);
    return true;
}

void handshake::detach_path()
{
    searching_ = false;
    ep_.reset();
    if (path != nullptr)
        path->owner = nullptr;
}

void handshake::end_path()
{
    detach_path();
    if (path != nullptr)
        path->finish();
}

shm_address handshake::own_address() const
{
    const auto qp = local_qp.lock();
    if (qp != nullptr)
        return discovery::own_shm_address(*qp, *path);
    shm_address none;
    none.absence_reason = no_shm_reason::unshared;
    return none;
}

bool handshake::search(const shm_address &peer)
{
    const auto qp = local_qp.lock();
    if (active)
        path->hold(); // input waits until the queue pair is ready
    else if (qp != nullptr)
        qp->suspend();
    no_shm_reason_ = qp == nullptr ? no_shm_reason::unshared : peer.absence_reason;
    if (qp != nullptr && (peer.present || discovery::required()))
        searching_ = discovery::reach(
                peer, *path, ep_, no_shm_reason_, [weak = std::weak_ptr(path)](discovery::shm_ep_ptr found) {
                    const auto from = weak.lock();
                    const lock_guard guard(cm::lock());
                    handshake *h = from == nullptr ? nullptr : owner_of(*from);
                    if (h == nullptr || !std::exchange(h->searching_, false))
                        return;
                    h->ep_ = std::move(found);
                    h->no_shm_reason_ = h->ep_ == nullptr ? no_shm_reason::denied : no_shm_reason::none;
                    try {
                        h->searched();
                    } catch (const std::bad_alloc &) {
                        from->cut(); // the program is notified of the loss, not only of a timeout
                    }
                });
    return !searching_;
}

void handshake::stop_searching()
{
    if (std::exchange(searching_, false) && !active)
        respond();
}

void handshake::log_tcp_fallback() const
{
    log::write(log::level::info, "peer %s: shared memory not used: %s (all traffic over TCP)",
            text_of(tcp_socket::addresses_of(path->fd()).remote).data(), text_of(no_shm_reason_));
}

void handshake::respond()
{
    SOFTRDMA_ASSERT(!active && !searching_);
    const auto qp = local_qp.lock();
    shm_address local;
    if (ep_ != nullptr && qp != nullptr) {
        local = own_address();
        qp->expect(ep_);
        return send_address(local);
    }
    local.absence_reason = no_shm_reason_;
    send_address(local);
    log_tcp_fallback();
    if (qp != nullptr)
        qp->select_transport(nullptr, no_shm_reason_);
}

void handshake::decide()
{
    SOFTRDMA_ASSERT(active && !searching_);
    const auto qp = local_qp.lock();
    if (ep_ == nullptr)
        log_tcp_fallback();
    else if (qp != nullptr)
        qp->expect(ep_);
    if (qp != nullptr)
        qp->select_transport(ep_, no_shm_reason_);
}

void handshake::send_decision(opcode op)
{
    SOFTRDMA_ASSERT(active); // the passive side receives the decision
    path->send_control(op, encode(shm_decision{ep_ != nullptr, no_shm_reason_}));
    path->unhold();
    ep_.reset();
}

bool handshake::take_decision(const packet &p)
{
    shm_decision decision;
    if (active || !decode(p.payload, decision))
        return false;
    const auto ep = std::exchange(ep_, nullptr);
    if (ep == nullptr) // this side has responded that it has no endpoint
        return true;
    if (!decision.shares) {
        no_shm_reason_ = decision.reason;
        log_tcp_fallback();
    }
    if (const auto qp = local_qp.lock(); qp != nullptr)
        qp->select_transport(decision.shares ? ep : nullptr, no_shm_reason_);
    return true;
}

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/discovery.hpp"
#include "transport/shm/fd_server.hpp"
#include "transport/shm/policy.hpp"
#include "transport/shm/fd_client.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/socket.h>

namespace softrdma::discovery
{

namespace
{

void report_unshared(const address_text &peer, const char *reason)
{
    log::write(log::level::info, "peer %s: shared memory not used: %s", peer.data(), reason);
    if (required())
        fprintf(stderr, "softrdma: no local path to the peer (%s); run without SOFTRDMA_TRANSPORT=%s\n", reason,
                policy() == transport_word::shm ? "shm" : "shm-fd");
}

address_text name_of_peer(const packet_path &path)
{
    sockaddr_storage local{};
    sockaddr_storage remote{};
    path.ends(local, remote);
    return text_of(remote);
}

// Returns NULL if shared memory cannot be used: TCP then carries all traffic.
shm_ep_ptr open_passed(const shm_address &h, const connection_ends &ends, handover passed, const address_text &peer)
{
    if (passed.arena.get() < 0) {
        report_unshared(peer, "peer did not pass its memory descriptor");
        return nullptr;
    }
    try {
        std::string reason;
        shm_ep_ptr opened = shm_ep::open(h, ends, std::move(passed), reason);
        if (opened == nullptr)
            report_unshared(peer, reason.c_str());
        return opened;
    } catch (const std::bad_alloc &) {
        report_unshared(peer, strerror(ENOMEM));
        return nullptr;
    }
}

connection_ends ends_of(const packet_path &path)
{
    connection_ends ends;
    sockaddr_storage local{};
    sockaddr_storage remote{};
    path.ends(local, remote);
    if (local.ss_family == AF_UNSPEC || remote.ss_family == AF_UNSPEC)
        return ends;
    using address = decltype(ends.own_address); // IPv4 addresses have the form that an IPv6 socket of the peer shows
    return {std::bit_cast<address>(gid_of(local)), std::bit_cast<address>(gid_of(remote)), port_of(local),
            port_of(remote)};
}

} // namespace

shm_address own_shm_address(queue_pair &qp, const packet_path &path)
{
    const arena &arena = arena::instance();
    shm_address h;
    h.absence_reason = check_local_shm();
    if (!arena.shared() || !qp.describe(ends_of(path), h))
        return h;
    h.present = true;
    h.owner = own_identity();
    h.token = arena.token();
    h.fd_server = fd_server_number();
    return h;
}

bool reach(const shm_address &h, const packet_path &path, shm_ep_ptr &found, no_shm_reason &reason,
        const std::function<void(shm_ep_ptr)> &later)
{
    std::string text;
    const connection_ends ends = ends_of(path);
    const address_text peer = name_of_peer(path);
    found = policy() == transport_word::shm_fd ? nullptr : shm_ep::open(h, ends, text);
    if (found != nullptr)
        return false;
    const auto take = [=](handover passed) { later(open_passed(h, ends, std::move(passed), peer)); };
    reason = check_shm(h);
    if (reason == no_shm_reason::none)
        reason = request_fds(h, take);
    if (reason == no_shm_reason::none)
        return true;
    report_unshared(peer, text_of(reason));
    return false;
}

bool required()
{
    return policy() == transport_word::shm || policy() == transport_word::shm_fd;
}

} // namespace softrdma::discovery

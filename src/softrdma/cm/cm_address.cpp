// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm.hpp"
#include "cm/cm_roce.hpp"
#include "cm/roce_connect.hpp"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::cm
{

static void shift_port(sockaddr_storage &address, int by) noexcept
{
    in_port_t &port = port_of(address);
    if (port != 0)
        port = htons(static_cast<std::uint16_t>(ntohs(port) + by));
}

// Finds the local address from which this host would reach the destination. Returns 0 or an errno value.
static int source_for(const sockaddr *destination, sockaddr_storage &source)
{
    const int fd = socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    socklen_t size = sizeof(source);
    int error = 0;
    if (::connect(fd, destination, detail::address_size(destination)) != 0 ||
            getsockname(fd, reinterpret_cast<sockaddr *>(&source), &size) != 0)
        error = errno;
    ::close(fd);
    port_of(source) = 0;
    return error;
}

int detail::fail(int error) noexcept
{
    errno = error;
    return -1;
}

void detail::to_tcp(sockaddr_storage &address)
{
    shift_port(address, settings().port_offset);
}

void detail::from_tcp(sockaddr_storage &address)
{
    shift_port(address, -settings().port_offset);
}

socklen_t detail::address_size(const sockaddr *address) noexcept
{
    if (address == nullptr)
        return 0;
    if (address->sa_family == AF_INET)
        return sizeof(sockaddr_in);
    return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

bool detail::is_wildcard(const sockaddr *address) noexcept
{
    if (address->sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
}

int detail::adopt_device(cm_id &id)
{
    if (id.verbs != nullptr)
        return 0;
    ibv_context *context = id.device.context();
    ibv_pd *pd = context == nullptr ? nullptr : id.device.default_pd();
    if (pd == nullptr)
        return -1;
    id.verbs = context;
    id.pd = pd;
    id.port_num = 1;
    return 0;
}

void detail::fill_gids(cm_id &id)
{
    id.route.addr.addr.ibaddr.sgid = gid_of(id.route.addr.src_storage);
    id.route.addr.addr.ibaddr.dgid = gid_of(id.route.addr.dst_storage);
    id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
}

void detail::query_addresses(cm_id &id, int socket)
{
    socklen_t size = sizeof(id.route.addr.src_storage);
    getsockname(socket, &id.route.addr.src_addr, &size);
    size = sizeof(id.route.addr.dst_storage);
    getpeername(socket, &id.route.addr.dst_addr, &size);
    from_tcp(id.route.addr.src_storage);
    fill_gids(id);
}

void detail::share_port(int socket) noexcept
{
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
}

int detail::open_bound(cm_id &id, const sockaddr *address)
{
    sockaddr_storage tcp{};
    memcpy(&tcp, address, address_size(address));
    id.any_port = id.any_port || port_of(tcp) == 0;
    if (port_of(tcp) != 0 && is_port_taken(id, tcp, id.shares_port))
        return fail(EADDRINUSE);
    to_tcp(tcp);
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (address->sa_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, id.v6_only ? 1 : 0);
    if (id.shares_port)
        share_port(fd);
    // The kernel rejects a second bound socket if neither shares its port; earlier connections require the second try.
    const auto *to = reinterpret_cast<const sockaddr *>(&tcp);
    bool is_bound = ::bind(fd, to, address_size(address)) == 0;
    if (!is_bound && errno == EADDRINUSE) {
        share_port(fd);
        is_bound = ::bind(fd, to, address_size(address)) == 0;
    }
    if (!is_bound) {
        const int error = errno;
        log::write(log::level::info, "address %s: not bound: %s (see SOFTRDMA_PORT_OFFSET)", text_of(tcp).data(),
                strerror(error));
        ::close(fd);
        return fail(error);
    }
    socklen_t size = sizeof(id.route.addr.src_storage);
    getsockname(fd, &id.route.addr.src_addr, &size);
    from_tcp(id.route.addr.src_storage);
    id.socket = fd;
    id.owns_port = true;
    id.state = cm_state::bound;
    return 0;
}

int bind(cm_id &id, const sockaddr *address)
{
    if (detail::address_size(address) == 0)
        return detail::fail(EINVAL);
    const lock_guard guard(lock());
    if (id.state != cm_state::idle)
        return detail::fail(EINVAL);
    const bool is_bound = detail::open_bound(id, address) == 0;
    id.lost_port = !is_bound && errno == EADDRINUSE;
    if (!is_bound)
        return -1;
    detail::fill_gids(id);
    // The connection manager of the kernel treats a loopback address like a wildcard address.
    const bool matches_all = detail::is_wildcard(address) ||
                             (settings().loopback_is_wildcard && is_loopback(id.route.addr.addr.ibaddr.sgid));
    return matches_all ? 0 : detail::adopt_device(id);
}

int resolve_address(cm_id &id, const sockaddr *source, const sockaddr *destination)
{
    if (detail::address_size(destination) == 0 || (source != nullptr && source->sa_family != destination->sa_family))
        return detail::fail(EINVAL);
    const lock_guard guard(lock());
    if (id.state != cm_state::idle && id.state != cm_state::bound)
        return detail::fail(EINVAL);
    memcpy(&id.route.addr.dst_storage, destination, detail::address_size(destination));
    sockaddr_storage chosen{};
    int error = source_for(destination, chosen);
    if (error == 0 && id.state == cm_state::bound) {
        if (detail::is_wildcard(&id.route.addr.src_addr)) {
            port_of(chosen) = port_of(id.route.addr.src_storage);
            id.route.addr.src_storage = chosen;
        }
    } else if (error == 0) {
        const bool has_source = source != nullptr && !detail::is_wildcard(source);
        if (source != nullptr && !has_source)
            port_of(chosen) = reinterpret_cast<const sockaddr_in *>(source)->sin_port; // same offset in both families
        const auto *from = has_source ? source : reinterpret_cast<const sockaddr *>(&chosen);
        error = detail::open_bound(id, from) == 0 ? 0 : errno;
    }
    if (error == 0 && detail::adopt_device(id) != 0)
        error = errno;
    if (error != 0) {
        log::write(log::level::info, "peer %s: address not resolved: %s", text_of(id.route.addr.dst_storage).data(),
                strerror(error));
        detail::queue_event(id, RDMA_CM_EVENT_ADDR_ERROR, error == EADDRNOTAVAIL ? -ENODEV : -error);
        return 0;
    }
    detail::fill_gids(id);
    id.state = cm_state::address_resolved;
    detail::queue_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return 0;
}

int resolve_route(cm_id &id)
{
    const lock_guard guard(lock());
    if (id.state != cm_state::address_resolved)
        return detail::fail(EINVAL);
    ibv_sa_path_rec &record = id.path_record;
    record.sgid = id.route.addr.addr.ibaddr.sgid;
    record.dgid = id.route.addr.addr.ibaddr.dgid;
    record.pkey = htobe16(0xffff);
    record.reversible = 1;
    record.traffic_class = id.traffic_class;
    record.numb_path = 1;
    record.mtu_selector = 2;
    if (roce_connect::is_selected())
        over_roce::adopt_path(id);
    record.mtu = static_cast<std::uint8_t>(id.path_mtu);
    record.rate_selector = 2;
    record.rate = IBV_RATE_100_GBPS;
    record.packet_life_time_selector = 2;
    record.packet_life_time = 18;
    id.route.path_rec = &record;
    id.route.num_paths = 1;
    id.state = cm_state::route_resolved;
    detail::queue_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return 0;
}

} // namespace softrdma::cm

// SPDX-License-Identifier: BSD-3-Clause
#include "lanes/device.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd_owner.hpp"
#include "message/control.hpp"
#include "shortage.hpp"

namespace rpmemd
{

namespace
{

constexpr int port_attempts = 16;

int errno_of(int result)
{
    return result == RPMA_E_PROVIDER && errno != 0 ? errno : result == RPMA_E_NOMEM ? ENOMEM : result == 0 ? 0 : EIO;
}

struct addresses_deleter {
    void operator()(addrinfo *found) const { freeaddrinfo(found); }
};

} // namespace

// librpma does not report the port that it listens on. The kernel therefore selects a free port for a socket that is
// closed again; another process can take the port before librpma binds it.
unsigned free_port(const std::string &address)
{
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (const int error = getaddrinfo(address.c_str(), "0", &hints, &found); error != 0)
        throw failure(
                EADDRNOTAVAIL, std::string("the address of the connection is not usable: ") + gai_strerror(error));
    const std::unique_ptr<addrinfo, addresses_deleter> owned(found);
    const replica::fd_owner probe(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    if (!probe.valid() || bind(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
            getsockname(probe.get(), reinterpret_cast<sockaddr *>(&bound), &size) != 0)
        throw system_failure("cannot find a free port");
    return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6 &>(bound).sin6_port
                                             : reinterpret_cast<const sockaddr_in &>(bound).sin_port);
}

void check_rpma(int result, const std::string &message)
{
    if (result == 0)
        return;
    const int error = errno_of(result);
    const std::string cause = result == RPMA_E_PROVIDER ? std::strerror(error) : rpma_err_2str(result);
    throw failure(error == EINVAL || error == ENOENT || error == EACCES || error == EEXIST ? EIO : error,
            message + ": " + cause);
}

// librpma loads the software device automatically, without the launcher softrdma.
device open_device(const std::string &address, std::uint32_t kinds)
{
    constexpr std::uint32_t any = replica::device_hardware | replica::device_software;
    const rpma_device_kind rpma_kind = (kinds & any) == any                      ? RPMA_DEVICE_ANY
                                       : (kinds & replica::device_software) != 0 ? RPMA_DEVICE_SOFTRDMA
                                                                                 : RPMA_DEVICE_KERNEL;
    ibv_context *context = nullptr;
    const int result =
            rpma_utils_get_ibv_context_by_kind(address.c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL, rpma_kind, &context);
    if (is_local_shortage(errno_of(result)))
        check_rpma(result, "cannot open an RDMA device at the target");
    if (result != 0 && rpma_kind == RPMA_DEVICE_KERNEL)
        throw failure(EMEDIUMTYPE,
                "RDMA device not found at the target for the address of the connection (allow the software "
                "device with RPMEM_ENABLE_SOCKETS=1, or run rpma-doctor there)");
    check_rpma(result, "neither an RDMA device for the address of the connection nor softrdma found at the target "
                       "(install softrdma)");
    rpma_device_kind kind = RPMA_DEVICE_ANY;
    check_rpma(rpma_utils_ibv_context_get_kind(context, &kind), "cannot query the device kind at the target");
    device found;
    found.is_software = kind == RPMA_DEVICE_SOFTRDMA;
    rpma_peer *peer = nullptr;
    check_rpma(rpma_peer_new(context, &peer), "cannot use the RDMA device of the target");
    found.peer.reset(peer);
    return found;
}

region_ptr register_memory(const device &on, void *from, std::size_t size, int usage, const std::string &name)
{
    rpma_mr_local *region = nullptr;
    check_rpma(rpma_mr_reg(on.peer.get(), from, size, usage, &region),
            "cannot register " + name + " (" + std::to_string(size) + " bytes; see ulimit -l at the target)");
    return region_ptr(region);
}

endpoint listen_anywhere(const device &on, const std::string &address)
{
    for (int attempt = 1;; ++attempt) {
        endpoint created;
        created.port = free_port(address);
        rpma_ep *listener = nullptr;
        const int result =
                rpma_ep_listen(on.peer.get(), address.c_str(), std::to_string(created.port).c_str(), &listener);
        created.listener.reset(listener);
        if (result == 0)
            return created;
        if (attempt == port_attempts || result != RPMA_E_PROVIDER || errno != EADDRINUSE)
            check_rpma(result, "the target cannot listen for the data");
    }
}

} // namespace rpmemd

// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/address.hpp"

#include <cstdio>
#include <cstring>
#include <netinet/in.h>

#include "log.hpp"
#include "shortage.hpp"

namespace rpma::rdma
{

namespace
{

// Accepts a decimal number from 0 to 65535, or the name of a service, which starts with a letter or a digit. The
// resolver would reduce larger numbers modulo 65536, and accept signs, spaces and an empty string.
bool valid_port(const char *port)
{
    constexpr unsigned long max_port = 65535;
    unsigned long number = 0;
    const char *at = port;
    for (; *at >= '0' && *at <= '9'; ++at) {
        number = 10 * number + static_cast<unsigned long>(*at - '0');
        if (number > max_port)
            return at[std::strspn(at, "0123456789")] != '\0';
    }
    return at != port || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
}

int to_errno(int resolver_error)
{
    switch (resolver_error) {
    case EAI_AGAIN:
        return EAGAIN;
    case EAI_MEMORY:
        return ENOMEM;
    case EAI_SERVICE:
        return EPROTONOSUPPORT;
    default:
        return ENXIO;
    }
}

} // namespace

errc free_addrinfo(const library &from, rdma_addrinfo *info)
{
    from.rdma_freeaddrinfo(info);
    return errc::ok;
}

result<addrinfo_handle> resolve_name(const library &by, const char *addr, const char *port, side which)
{
    if (port != nullptr && !valid_port(port)) {
        RPMA_LOG_ERROR("port \"%s\": invalid (use a number from 0 to 65535 or the name of a service)\n", port);
        return errc::inval;
    }
    rdma_addrinfo hints{};
    hints.ai_flags = which == side::passive ? RAI_PASSIVE : 0;
    hints.ai_qp_type = IBV_QPT_RC;
    hints.ai_port_space = RDMA_PS_TCP;

    rdma_addrinfo *info = nullptr;
    const int returned = by.rdma_getaddrinfo(addr, port, &hints, &info);
    if (returned == 0)
        return addrinfo_handle(by, info);
    if (returned == -1 || returned == EAI_SYSTEM)
        return log::provider_error(errno, "rdma_getaddrinfo", addr);
    // Without a free descriptor, the resolver does not find any name.
    if (const int error = descriptor_shortage(); error != 0)
        return log::provider_error(error, "rdma_getaddrinfo", addr);
    RPMA_LOG_ERROR("rdma_getaddrinfo(%s) failed: %s\n", addr, gai_strerror(returned));
    errno = to_errno(returned);
    return errc::provider;
}

address_text::address_text(const sockaddr *address)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    const bool v6 = address != nullptr && address->sa_family == AF_INET6;
    const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (address == nullptr ||
            getnameinfo(address, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        std::snprintf(text_, sizeof(text_), "unknown address");
    else
        std::snprintf(text_, sizeof(text_), v6 ? "[%s]:%s" : "%s:%s", host, port);
}

#ifdef RPMA_DEBUG_BUILD

namespace
{

class gid_text
{
public:
    explicit gid_text(const ibv_gid &gid)
    {
        for (int group = 0; group < 8; ++group)
            std::snprintf(text_ + 5 * group, sizeof(text_) - static_cast<std::size_t>(5 * group), "%02x%02x%s",
                    gid.raw[2 * group], gid.raw[2 * group + 1], group < 7 ? ":" : "");
    }
    const char *c_str() const { return text_; }

private:
    char text_[40];
};

} // namespace

void log_gids(const rdma_cm_id *id)
{
    const ibv_sa_path_rec *const path = id->route.path_rec;
    if (path == nullptr)
        RPMA_LOG_NOTICE("source and destination GID are not available\n");
    else
        RPMA_LOG_NOTICE(
                "source GID %s, destination GID %s\n", gid_text(path->sgid).c_str(), gid_text(path->dgid).c_str());
}

#else

void log_gids(const rdma_cm_id *) {}

#endif

} // namespace rpma::rdma

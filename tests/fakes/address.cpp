// SPDX-License-Identifier: BSD-3-Clause
#include "address.hpp"

#include <cstdio>
#include <cstring>
#include <netinet/in.h>

#include "stack.hpp"

// Name resolution: every name has the addresses 192.0.2.0, 192.0.2.1 ... or 2001:db8::, 2001:db8::1 ..., except for
// "0.0.0.0" and "::", which are the wildcard.
namespace
{

using fake::call;
using fake::the;

struct addrinfo_list : fake::object {
    addrinfo_list() : object(FAKE_ADDRINFO) {}
    std::deque<rdma_addrinfo> entries;
    std::deque<sockaddr_storage> addresses;
};

sockaddr_storage make_address(unsigned index, bool ipv6, bool wildcard)
{
    sockaddr_storage storage{};
    if (ipv6) {
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(7204);
        if (!wildcard) {
            const unsigned char prefix[] = {0x20, 0x01, 0x0d, 0xb8};
            std::memcpy(address.sin6_addr.s6_addr, prefix, sizeof(prefix));
            address.sin6_addr.s6_addr[15] = static_cast<unsigned char>(index);
        }
        std::memcpy(&storage, &address, sizeof(address));
    } else {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(7204);
        address.sin_addr.s_addr = wildcard ? INADDR_ANY : htonl(0xc0000200U + index);
        std::memcpy(&storage, &address, sizeof(address));
    }
    return storage;
}

void fill(addrinfo_list &list, const rdma_addrinfo &hints, bool wildcard)
{
    const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
    for (unsigned i = 0; i < the().device.addresses; ++i) {
        list.addresses.push_back(make_address(i, the().device.ipv6, wildcard));
        rdma_addrinfo entry = hints;
        entry.ai_family = list.addresses.back().ss_family;
        (passive ? entry.ai_src_addr : entry.ai_dst_addr) = reinterpret_cast<sockaddr *>(&list.addresses.back());
        (passive ? entry.ai_src_len : entry.ai_dst_len) = sizeof(sockaddr_storage);
        entry.ai_next = nullptr;
        list.entries.push_back(entry);
        if (i > 0)
            list.entries[i - 1].ai_next = &list.entries[i];
    }
}

} // namespace

namespace fake
{

unsigned address_index(const sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr.s6_addr[15];
    return ntohl(reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr) & 0xff;
}

bool is_wildcard(const sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr);
    return reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr == INADDR_ANY;
}

} // namespace fake

extern "C" {

int rdma_getaddrinfo(
        const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **result)
{
    const call c("rdma_getaddrinfo");
    fake_arguments &seen = the().seen;
    std::snprintf(seen.node, sizeof(seen.node), "%s", node != nullptr ? node : "");
    std::snprintf(seen.service, sizeof(seen.service), "%s", service != nullptr ? service : "");
    seen.hints = *hints;
    if (c.error() != 0)
        return fake::minus_one(c.error());
    if (the().device.name_error != 0)
        return the().device.name_error;
    auto created = std::make_unique<addrinfo_list>();
    const bool wildcard = node != nullptr && (std::strcmp(node, "0.0.0.0") == 0 || std::strcmp(node, "::") == 0);
    fill(*created, *hints, wildcard);
    rdma_addrinfo *const handle = &created->entries.front();
    the().add(handle, std::move(created));
    *result = handle;
    return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *list)
{
    call("rdma_freeaddrinfo", call::kind::infallible).destroy(list);
}

} // extern "C"

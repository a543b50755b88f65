// SPDX-License-Identifier: BSD-3-Clause
#include "base/gid_table.hpp"
#include "base/config.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>

namespace softrdma
{

static int rank(const gid_entry &entry) noexcept
{
    const auto *v6 = reinterpret_cast<const in6_addr *>(entry.gid.raw);
    return (is_loopback(entry.gid) ? 4 : 0) + (is_v4(entry.gid) ? 0 : 1) + (IN6_IS_ADDR_LINKLOCAL(v6) ? 1 : 0);
}

static std::vector<gid_entry> *read_addresses()
{
    auto table = std::make_unique<std::vector<gid_entry>>();
    ifaddrs *found = nullptr;
    if (getifaddrs(&found) != 0)
        return table.release();
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, freeifaddrs);
    for (const ifaddrs *i = all.get(); i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0)
            continue;
        sockaddr_storage address{};
        if (i->ifa_addr->sa_family == AF_INET)
            memcpy(&address, i->ifa_addr, sizeof(sockaddr_in));
        else if (i->ifa_addr->sa_family == AF_INET6)
            memcpy(&address, i->ifa_addr, sizeof(sockaddr_in6));
        else
            continue;
        table->push_back({.gid = gid_of(address), .interface = if_nametoindex(i->ifa_name)});
    }
    std::stable_sort(
            table->begin(), table->end(), [](const gid_entry &a, const gid_entry &b) { return rank(a) < rank(b); });
    return table.release();
}

const std::vector<gid_entry> &gid_table()
{
    static constinit process::single<const std::vector<gid_entry>> table;
    return table.get([] { return read_addresses(); });
}

ibv_gid_type type_of_gid(const gid_entry &entry)
{
    if (own_lid() != 0)
        return IBV_GID_TYPE_IB;
    return is_loopback(entry.gid) && !is_loopback(gid_table().front().gid) ? IBV_GID_TYPE_ROCE_V1
                                                                           : IBV_GID_TYPE_ROCE_V2;
}

std::uint16_t own_lid()
{
    const auto &table = gid_table();
    const bool infiniband = config::is(config::setting::link, config::link_word::infiniband);
    if (!infiniband || table.empty() || !is_v4(table.front().gid))
        return 0;
    const auto *raw = table.front().gid.raw;
    return static_cast<std::uint16_t>(raw[14] << 8 | raw[15]);
}

const gid_entry &lid_entry()
{
    return gid_table().front();
}

ibv_gid gid_of_lid(std::uint16_t lid)
{
    ibv_gid gid = lid_entry().gid;
    gid.raw[14] = static_cast<std::uint8_t>(lid >> 8);
    gid.raw[15] = static_cast<std::uint8_t>(lid);
    return gid;
}

bool is_loopback(const ibv_gid &gid) noexcept
{
    return is_v4(gid) ? gid.raw[12] == IN_LOOPBACKNET
                      : IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr *>(gid.raw));
}

bool is_own_address(std::span<const std::byte, 16> gid) noexcept
{
    return std::ranges::any_of(
            gid_table(), [&](const gid_entry &e) { return memcmp(e.gid.raw, gid.data(), gid.size()) == 0; });
}

bool is_v4(const ibv_gid &gid) noexcept
{
    return IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr *>(gid.raw));
}

ibv_gid gid_of(const sockaddr_storage &address) noexcept
{
    ibv_gid gid{};
    if (address.ss_family == AF_INET6) {
        memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr, sizeof(gid.raw));
    } else {
        gid.raw[10] = gid.raw[11] = 0xff;
        memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in &>(address).sin_addr, 4);
    }
    return gid;
}

sockaddr_storage address_of(const ibv_gid &gid, unsigned interface) noexcept
{
    sockaddr_storage address{};
    if (is_v4(gid)) {
        auto &v4 = reinterpret_cast<sockaddr_in &>(address);
        v4.sin_family = AF_INET;
        memcpy(&v4.sin_addr, gid.raw + 12, sizeof(v4.sin_addr));
        return address;
    }
    auto &v6 = reinterpret_cast<sockaddr_in6 &>(address);
    v6.sin6_family = AF_INET6;
    memcpy(&v6.sin6_addr, gid.raw, sizeof(v6.sin6_addr));
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr))
        v6.sin6_scope_id = interface;
    return address;
}

in_port_t &port_of(sockaddr_storage &address) noexcept
{
    return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                         : reinterpret_cast<sockaddr_in &>(address).sin_port;
}

bool same(const ibv_gid &a, const ibv_gid &b) noexcept
{
    return memcmp(a.raw, b.raw, sizeof(a.raw)) == 0;
}

} // namespace softrdma

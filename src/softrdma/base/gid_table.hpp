// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <vector>

namespace softrdma
{

inline constexpr std::uint64_t device_guid = 0x0200535246544401; // locally administered, the same on all hosts

struct gid_entry {
    ibv_gid gid{};
    unsigned interface = 0;
};

// One entry per local address, as in a RoCE port. Read once, so that an index remains valid. Addresses that other hosts
// can reach precede the others, and IPv4 precedes IPv6: programs take the first suitable entry.
const std::vector<gid_entry> &gid_table();

// Returns IBV_GID_TYPE_IB on an InfiniBand link. On Ethernet, returns RoCE v1 for a loopback address if others exist,
// because programs take the first entry of RoCE v2 as the address for other hosts.
ibv_gid_type type_of_gid(const gid_entry &entry);

// LID on an InfiniBand link: the last two bytes of the first IPv4 address; all peers share the first two. Otherwise 0.
std::uint16_t own_lid();
const gid_entry &lid_entry(); // entry with the address of own_lid(), which must not be 0
ibv_gid gid_of_lid(std::uint16_t lid);

bool is_own_address(std::span<const std::byte, 16> gid) noexcept;

bool is_loopback(const ibv_gid &gid) noexcept;

bool is_v4(const ibv_gid &gid) noexcept;
ibv_gid gid_of(const sockaddr_storage &address) noexcept;                     // an IPv4 address is mapped into IPv6
sockaddr_storage address_of(const ibv_gid &gid, unsigned interface) noexcept; // `interface`: scope if link-local
in_port_t &port_of(sockaddr_storage &address) noexcept;
inline in_port_t port_of(const sockaddr_storage &address) noexcept
{
    return port_of(const_cast<sockaddr_storage &>(address));
}
bool same(const ibv_gid &a, const ibv_gid &b) noexcept;

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <vector>

namespace softrdma::net
{

struct gid_entry {
    ibv_gid gid{};
    unsigned interface = 0;
};

// One entry per local address, as a RoCE port has; taken once, so that an index stays what it was. What other hosts
// can reach comes first, IPv4 before IPv6: programs take the first entry that looks good.
const std::vector<gid_entry> &gid_table();

// IBV_GID_TYPE_IB on an InfiniBand link. On Ethernet, RoCE v1 for a loopback address if there are others: programs take
// the first entry of RoCE v2 as the address for other hosts.
ibv_gid_type type_of_gid(const gid_entry &entry);

// On an InfiniBand link the LID of this host consists of the last two bytes of its first IPv4 address. Peers share the
// first two bytes. 0 on Ethernet, and if no address has a LID.
std::uint16_t own_lid();
// The entry with that address, which paths by LID use. Only if own_lid() is not 0.
const gid_entry &lid_entry();
// The address of the host with this LID.
ibv_gid gid_of_lid(std::uint16_t lid);

// Whether it is one of this host, as far as that table knows.
bool is_own_address(std::span<const std::byte, 16> gid) noexcept;

// Whether only this host reaches itself by it.
bool is_loopback(const ibv_gid &gid) noexcept;

// The GID is the address, an IPv4 one mapped into IPv6.
ibv_gid gid_of(const sockaddr_storage &address) noexcept;
// `interface` gives a link-local address its meaning.
sockaddr_storage address_of(const ibv_gid &gid, unsigned interface) noexcept;
in_port_t &port_of(sockaddr_storage &address) noexcept;
bool same(const ibv_gid &a, const ibv_gid &b) noexcept;

} // namespace softrdma::net

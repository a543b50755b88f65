// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/address_handle.hpp"
#include "base/or_no_memory.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace softrdma
{

constexpr std::uint8_t max_service_level = 15;
constexpr std::uint8_t multicast_prefix = 0xff; // first byte of a multicast GID

static bool is_multicast(const ibv_gid &gid) noexcept
{
    constexpr std::uint8_t first_v4 = 224;
    constexpr std::uint8_t last_v4 = 239;
    return is_v4(gid) ? gid.raw[12] >= first_v4 && gid.raw[12] <= last_v4 : gid.raw[0] == multicast_prefix;
}

address_handle *address_handle::create(ibv_pd *owner, const ibv_ah_attr &attr)
{
    const auto &gids = gid_table();
    const bool by_lid = attr.is_global == 0 && own_lid() != 0;
    if (attr.is_global == 0 && !by_lid)
        log::write(log::level::info, "an address handle needs a GID, as on every Ethernet port: is_global is 0");
    const bool reachable = by_lid ? attr.dlid != 0 : attr.is_global != 0 && attr.grh.sgid_index < gids.size();
    if (attr.port_num != 1 || !reachable || attr.sl > max_service_level)
        return fail_with(nullptr, EINVAL);
    if (!by_lid && is_multicast(attr.grh.dgid))
        return fail_with(nullptr, EOPNOTSUPP);
    auto *ah = new address_handle;
    const gid_entry &source = by_lid ? lid_entry() : gids[attr.grh.sgid_index];
    const ibv_gid destination = by_lid ? gid_of_lid(attr.dlid) : attr.grh.dgid;
    ah->route = {
            std::bit_cast<network_address>(source.gid), std::bit_cast<network_address>(destination), source.interface};
    if (!by_lid)
        ah->route.traffic_class = attr.grh.traffic_class;
    ah->context = owner->context;
    ah->pd = owner;
    pd_of(owner).children.fetch_add(1);
    return ah;
}

address_handle::~address_handle()
{
    pd_of(pd).children.fetch_sub(1);
}

int reply_attributes(const ibv_wc &wc, const ibv_grh &grh, std::uint8_t port, ibv_ah_attr &attr)
{
    network_header header;
    network_address sender;
    network_address receiver;
    static_assert(sizeof(grh) == sizeof(header));
    memcpy(header.data(), &grh, header.size());
    if (port != 1 || (wc.wc_flags & IBV_WC_GRH) == 0 || !parse(header, sender, receiver))
        return EINVAL;
    const auto &gids = gid_table();
    const auto source = std::find_if(gids.begin(), gids.end(),
            [&](const gid_entry &e) { return std::bit_cast<network_address>(e.gid) == receiver; });
    if (source == gids.end())
        return ENOENT;
    attr = {};
    attr.port_num = port;
    attr.sl = wc.sl;
    attr.is_global = 1;
    attr.grh.sgid_index = static_cast<std::uint8_t>(source - gids.begin());
    attr.grh.hop_limit = UINT8_MAX;
    memcpy(attr.grh.dgid.raw, sender.data(), sender.size());
    return 0;
}

} // namespace softrdma

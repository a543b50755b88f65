// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "verbs/objects.hpp"

namespace softrdma
{

struct address_handle : ibv_ah {
    // Returns NULL and sets errno: EINVAL, EOPNOTSUPP for a multicast address.
    static address_handle *create(ibv_pd *pd, const ibv_ah_attr &attr);
    ~address_handle();

    datagram_route route{};
    std::size_t max_payload = max_datagram_payload;

private:
    address_handle() noexcept : ibv_ah{} {}
};

inline address_handle &ah_of(ibv_ah *ah) noexcept
{
    return *static_cast<address_handle *>(ah);
}

// Attributes of an address for a reply to this datagram. Returns 0 or an errno value.
int reply_attributes(const ibv_wc &wc, const ibv_grh &header, std::uint8_t port, ibv_ah_attr &attr);

} // namespace softrdma

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/datagram.hpp"
#include "wire/packet.hpp"

#include <vector>

namespace softrdma::trace
{

struct addresses {
    network_address from{};
    network_address to{};
};

// Ethernet frame of RoCE version 2: IP, UDP to port 4791, InfiniBand headers, payload, invariant CRC.
std::vector<std::byte> frame_of(const addresses &ends, const packet &header, std::span<const std::byte> payload);
std::vector<std::byte> frame_of(const addresses &ends, const datagram &header, std::span<const std::byte> payload);

} // namespace softrdma::trace

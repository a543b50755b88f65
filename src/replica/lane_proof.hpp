// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "control.hpp"

namespace replica
{

// The private data with which a client connects a lane: it shows that the client knows the token of the session, which
// it got over the control channel, without sending it.
inline constexpr std::size_t lane_proof_size = 28;
using lane_proof = std::array<std::byte, lane_proof_size>;

lane_proof make_lane_proof(const token &session, std::uint32_t lane);

// Whether the private data of a connection proves that it is a lane of the session; sets its number. What follows the
// proof is ignored, for some networks pad private data. The time it takes does not depend on how much is right. That a
// lane is connected only once is for the caller to see to.
bool check_lane_proof(const token &session, std::span<const std::byte> private_data, std::uint32_t *lane);

// The same for the lanes of a mirrored set, whose private data tells the epoch of its writer as well, and proves it.
inline constexpr std::size_t epoch_proof_size = lane_proof_size + sizeof(std::uint64_t);
using epoch_proof = std::array<std::byte, epoch_proof_size>;

epoch_proof make_epoch_proof(const token &session, std::uint32_t lane, std::uint64_t epoch);
bool check_epoch_proof(
        const token &session, std::uint64_t epoch, std::span<const std::byte> private_data, std::uint32_t *lane);

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "message/control.hpp"

namespace replica
{

// Private data of a lane's connection request. An HMAC proves that the client has the token of the session, received
// over the control channel, without sending the token.
inline constexpr std::size_t lane_proof_size = 28;
using lane_proof = std::array<std::byte, lane_proof_size>;

lane_proof make_lane_proof(const token &session, std::uint32_t lane);

// Returns whether the private data proves a lane of the session, and sets the lane number. Ignores padding at the end.
// Compares in constant time. The caller must reject a lane that is already connected.
bool check_lane_proof(const token &session, std::span<const std::byte> private_data, std::uint32_t *lane);

// Like lane_proof, but for lanes of a mirrored set: the private data also contains and proves the epoch of the writer.
inline constexpr std::size_t epoch_proof_size = lane_proof_size + sizeof(std::uint64_t);
using epoch_proof = std::array<std::byte, epoch_proof_size>;

epoch_proof make_epoch_proof(const token &session, std::uint32_t lane, std::uint64_t epoch);
bool check_epoch_proof(
        const token &session, std::uint64_t epoch, std::span<const std::byte> private_data, std::uint32_t *lane);

} // namespace replica

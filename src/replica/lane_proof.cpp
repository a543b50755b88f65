// SPDX-License-Identifier: BSD-3-Clause
#include "lane_proof.hpp"

#include <algorithm>

#include "bytes.hpp"
#include "siphash.hpp"

namespace replica
{

namespace
{

constexpr char proof_start[4] = {'R', 'P', 'M', 'L'};
constexpr std::size_t mac_at = 12;

// Of what precedes it. Half of the token is the key, the other half is part of the message.
siphash_result mac_of(const token &session, std::span<const std::byte, mac_at> preceding)
{
    siphash_key key;
    std::array<std::byte, sizeof(token) - sizeof(siphash_key) + mac_at> message;
    std::copy_n(session.begin(), key.size(), key.begin());
    const auto end = std::copy(session.begin() + key.size(), session.end(), message.begin());
    std::copy(preceding.begin(), preceding.end(), end);
    return siphash_128(key, message);
}

} // namespace

lane_proof make_lane_proof(const token &session, std::uint32_t lane)
{
    lane_proof proof;
    byte_writer to(proof.data());
    to.put_raw(proof_start, sizeof(proof_start)).put(std::uint32_t{protocol_major}).put(lane);
    const siphash_result mac = mac_of(session, std::span(proof).first<mac_at>());
    to.put_raw(mac.data(), mac.size());
    return proof;
}

bool check_lane_proof(const token &session, std::span<const std::byte> private_data, std::uint32_t *lane)
{
    if (private_data.size() < lane_proof_size)
        return false;
    byte_reader from(private_data.subspan(sizeof(proof_start) + sizeof(std::uint32_t)));
    *lane = from.get<std::uint32_t>();
    // What the right client would have sent for this lane.
    const lane_proof expected = make_lane_proof(session, *lane);
    volatile unsigned different = 0;
    for (std::size_t i = 0; i < lane_proof_size; ++i)
        different = different | std::to_integer<unsigned>(expected[i] ^ private_data[i]);
    return different == 0;
}

} // namespace replica

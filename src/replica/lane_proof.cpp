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
constexpr std::uint32_t plain_version = 1;
constexpr std::uint32_t epoch_version = 2;
constexpr std::size_t max_preceding = epoch_proof_size - sizeof(siphash_result);

// Computes the MAC of the preceding bytes. Half of the token is the key, the other half is part of the message.
siphash_result mac_of(const token &session, std::span<const std::byte> preceding)
{
    siphash_key key;
    std::array<std::byte, sizeof(token) - sizeof(siphash_key) + max_preceding> message;
    std::copy_n(session.begin(), key.size(), key.begin());
    const auto end = std::copy(session.begin() + key.size(), session.end(), message.begin());
    const auto size = std::copy(preceding.begin(), preceding.end(), end) - message.begin();
    return siphash_128(key, {message.data(), static_cast<std::size_t>(size)});
}

void put_head(byte_writer &to, std::uint32_t version, std::uint32_t lane)
{
    to.put_raw(proof_start, sizeof(proof_start)).put(version).put(lane);
}

void put_mac(byte_writer &to, const token &session, const std::byte *start)
{
    const siphash_result mac = mac_of(session, {start, to.size()});
    to.put_raw(mac.data(), mac.size());
}

// Reads the lane number, which is at the same offset in both kinds of proof.
std::uint32_t lane_in(std::span<const std::byte> private_data)
{
    byte_reader from(private_data.subspan(sizeof(proof_start) + sizeof(std::uint32_t)));
    return from.get<std::uint32_t>();
}

// Compares in constant time.
bool begins_with(std::span<const std::byte> bytes, std::span<const std::byte> expected)
{
    volatile unsigned different = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        different = different | std::to_integer<unsigned>(expected[i] ^ bytes[i]);
    return different == 0;
}

} // namespace

lane_proof make_lane_proof(const token &session, std::uint32_t lane)
{
    lane_proof proof;
    byte_writer to(proof.data());
    put_head(to, plain_version, lane);
    put_mac(to, session, proof.data());
    return proof;
}

// The functions below compute the proof that a valid client sends for this lane, and compare it.
bool check_lane_proof(const token &session, std::span<const std::byte> private_data, std::uint32_t *lane)
{
    if (private_data.size() < lane_proof_size)
        return false;
    *lane = lane_in(private_data);
    return begins_with(private_data, make_lane_proof(session, *lane));
}

epoch_proof make_epoch_proof(const token &session, std::uint32_t lane, std::uint64_t epoch)
{
    epoch_proof proof;
    byte_writer to(proof.data());
    put_head(to, epoch_version, lane);
    to.put(epoch);
    put_mac(to, session, proof.data());
    return proof;
}

bool check_epoch_proof(
        const token &session, std::uint64_t epoch, std::span<const std::byte> private_data, std::uint32_t *lane)
{
    if (private_data.size() < epoch_proof_size)
        return false;
    *lane = lane_in(private_data);
    return begins_with(private_data, make_epoch_proof(session, *lane, epoch));
}

} // namespace replica

// SPDX-License-Identifier: BSD-3-Clause
#include "message/lane_proof.hpp"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "bytes.hpp"

namespace replica
{

namespace
{

constexpr char proof_start[4] = {'R', 'P', 'M', 'L'};
constexpr std::uint32_t plain_version = 1;
constexpr std::uint32_t epoch_version = 2;
constexpr std::size_t mac_size = 16;

void put_head(byte_writer &to, std::uint32_t version, std::uint32_t lane)
{
    to.put_raw(proof_start, sizeof(proof_start)).put(version).put(lane);
}

void put_mac(byte_writer &to, const token &session, const std::byte *start)
{
    std::array<std::uint8_t, mac_size> mac{};
    hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, session.size(), reinterpret_cast<const std::uint8_t *>(session.data()));
    hmac_sha256_update(&context, to.size(), reinterpret_cast<const std::uint8_t *>(start));
    hmac_sha256_digest(&context, mac.size(), mac.data());
    to.put_raw(mac.data(), mac.size());
}

// Reads the lane number, which is at the same offset in both kinds of proof.
std::uint32_t lane_in(std::span<const std::byte> private_data)
{
    byte_reader from(private_data.subspan(sizeof(proof_start) + sizeof(std::uint32_t)));
    return from.get<std::uint32_t>();
}

bool begins_with(std::span<const std::byte> bytes, std::span<const std::byte> expected)
{
    return memeql_sec(bytes.data(), expected.data(), expected.size()) != 0;
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

// SPDX-License-Identifier: BSD-3-Clause
// Messages of a lane: the proof in the connection request, requests and responses, and the arithmetic of ranges.
#include "base/siphash.hpp"
#include "message/lane_message.hpp"
#include "message/lane_proof.hpp"

#include <cstring>
#include <vector>

#include "cmocka_headers.hpp"

using namespace replica;

namespace
{

token some_token(unsigned char first)
{
    token t;
    for (std::size_t i = 0; i < t.size(); ++i)
        t[i] = static_cast<std::byte>(first + i);
    return t;
}

// Values from the list of the reference implementation, for the key 00 01 .. 0f and the messages "", 00, .., 00 01 ..
// 0e.
TEST(siphash_agrees_with_its_authors)
{
    siphash_key key;
    for (std::size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::byte>(i);
    const unsigned char of_nothing[] = {
            0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    const unsigned char of_one[] = {
            0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
    const std::byte zero{0};
    assert_memory_equal(siphash_128(key, {}).data(), of_nothing, sizeof(of_nothing));
    assert_memory_equal(siphash_128(key, {&zero, 1}).data(), of_one, sizeof(of_one));
}

TEST(a_proof_names_its_lane)
{
    const token t = some_token(1);
    for (const std::uint32_t lane : {0U, 1U, 1023U, 0xffffffffU}) {
        const lane_proof proof = make_lane_proof(t, lane);
        std::uint32_t got = 0;
        assert_true(check_lane_proof(t, proof, &got));
        assert_int_equal(got, lane);
        // Some networks pad private data with zeros.
        std::vector<std::byte> padded(proof.begin(), proof.end());
        padded.resize(56);
        assert_true(check_lane_proof(t, padded, &got));
    }
}

// HMAC-SHA-256 of another implementation, truncated to 16 bytes.
TEST(a_proof_ends_with_an_hmac)
{
    const unsigned char plain[] = {
            0x7d, 0x39, 0x2d, 0x3c, 0xa3, 0x7d, 0xc5, 0xb1, 0xcb, 0xa4, 0x69, 0xff, 0x95, 0x2f, 0x9d, 0xcb};
    const unsigned char of_epoch[] = {
            0x7c, 0xff, 0x8f, 0xe0, 0x91, 0x30, 0x30, 0xaf, 0x4f, 0xbb, 0x50, 0xf9, 0xb7, 0x4c, 0xa9, 0xba};
    assert_memory_equal(&make_lane_proof(some_token(1), 5)[12], plain, sizeof(plain));
    assert_memory_equal(&make_epoch_proof(some_token(1), 5, 9)[20], of_epoch, sizeof(of_epoch));
}

TEST(other_bytes_are_no_proof)
{
    const token t = some_token(1);
    const lane_proof proof = make_lane_proof(t, 5);
    std::uint32_t lane = 0;
    for (std::size_t i = 0; i < proof.size(); ++i) {
        lane_proof damaged = proof;
        damaged[i] ^= std::byte{0x10};
        assert_false(check_lane_proof(t, damaged, &lane));
        assert_false(check_lane_proof(t, std::span(proof).first(i), &lane));
    }
    // Each byte of the token affects the proof.
    for (std::size_t i = 0; i < t.size(); ++i) {
        token other = t;
        other[i] ^= std::byte{1};
        assert_false(check_lane_proof(other, proof, &lane));
    }
}

TEST(requests_survive_encoding)
{
    lane_request sent;
    sent.kind = lane_request_kind::deep_flush;
    sent.sequence = 0x0102030405060708;
    sent.count = max_ranges;
    for (std::uint32_t i = 0; i < max_ranges; ++i)
        sent.ranges[i] = {~std::uint64_t{i}, i};
    std::byte wire[max_lane_request_size];
    assert_int_equal(encode(sent, wire), sizeof(wire));
    lane_request got;
    assert_true(decode(wire, got));
    assert_true(got.kind == sent.kind);
    assert_int_equal(got.sequence, sent.sequence);
    assert_int_equal(got.count, max_ranges);
    assert_memory_equal(got.ranges, sent.ranges, sizeof(sent.ranges));
}

TEST(damaged_requests_are_malformed)
{
    lane_request r;
    r.count = 2;
    std::byte wire[max_lane_request_size + 1];
    const std::size_t size = encode(r, wire);
    for (std::size_t i = 0; i <= sizeof(wire); ++i)
        if (i != size)
            assert_false(decode(std::span(wire).first(i), r));
    for (const unsigned kind : {0U, 3U, 255U}) {
        wire[0] = static_cast<std::byte>(kind);
        assert_false(decode(std::span(wire).first(size), r));
    }
    // A count for which the size of the ranges overflows 32 bits to a small value.
    wire[0] = std::byte{1};
    wire[7] = std::byte{0x10};
    assert_false(decode(std::span(wire).first(size), r));
}

TEST(responses_survive_encoding)
{
    lane_response sent;
    sent.error = EIO;
    sent.sequence = 77;
    std::byte wire[lane_response_size];
    assert_int_equal(encode(sent, wire), sizeof(wire));
    lane_response got;
    assert_true(decode(wire, got));
    assert_int_equal(got.error, EIO);
    assert_int_equal(got.sequence, 77);
    assert_false(decode(std::span(wire).first(lane_response_size - 1), got));
    wire[7] = std::byte{0x80};
    assert_false(decode(wire, got));
}

TEST(ranges_do_not_wrap)
{
    constexpr std::uint64_t max = ~std::uint64_t{0};
    assert_true(range_fits({4096, 0}, 4096, 8192));
    assert_true(range_fits({4096, 4096}, 4096, 8192));
    assert_true(range_fits({8192, 0}, 4096, 8192));
    assert_false(range_fits({8192, 1}, 4096, 8192));
    assert_false(range_fits({8193, 0}, 4096, 8192));
    assert_false(range_fits({4095, 1}, 4096, 8192));
    assert_false(range_fits({0, 8192}, 4096, 8192));
    assert_false(range_fits({4096, max}, 4096, 8192));
    assert_false(range_fits({max, 2}, 0, 8192));
    assert_false(range_fits({5000, max - 4999}, 4096, 8192));
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
// White-box: rules of the specification for single packets of RoCE. The test plays the peer and the requester or
// responder above.
#include "transport/roce/replier.hpp"
#include "transport/roce/sender.hpp"
#include "wire/roce.hpp"

#include <vector>

#include "cmocka_headers.hpp"

using namespace softrdma;

namespace
{

using enum opcode;
constexpr std::uint32_t mtu = 1024;
constexpr std::uint32_t first_psn = psn_mask; // the next one is 0
const std::vector<std::byte> whole(mtu);
constexpr std::uint32_t short_size = 8;
const std::vector<std::byte> some(short_size);
constexpr packet acknowledgment{.op = acknowledge, .syndrome = syndrome::ack};
const roce::attributes attributes{.mtu = mtu,
        .send_psn = first_psn,
        .receive_psn = first_psn,
        .timeout = std::chrono::seconds(1),
        .retry_cnt = 1,
        .max_dest_rd_atomic = 2};

struct sent_packets final : roce::packet_outlet {
    void send(const packet &p, std::span<const std::byte>) override { all.push_back(p); }
    packet last() const { return all.empty() ? packet{} : all.back(); }

    std::vector<packet> all;
};

class responder_side
{
public:
    // Returns the packet for the responder above.
    std::optional<packet> arrives(
            opcode op, std::uint32_t number, std::span<const std::byte> payload = {}, std::uint32_t length = 0)
    {
        packet p{.op = op, .psn = roce::psn_add(first_psn, number), .dma_length = length};
        p.payload = payload;
        return replier.arrived(p);
    }
    void reply(packet header, std::uint32_t message, std::span<const std::byte> payload = {})
    {
        const iovec part{const_cast<std::byte *>(payload.data()), payload.size()};
        header.psn = roce::psn_add(first_psn, message);
        replier.reply(header, {&part, 1});
    }

    sent_packets sent;
    roce::replier replier{attributes, sent};
};

// Later messages that have arrived do not count.
DEFINE_TEST(responses_count_the_messages_before_them, nullptr, nullptr)
{
    responder_side s;
    s.arrives(read_request, 0, {}, short_size);
    s.arrives(write_only, 1, some, short_size);
    s.arrives(compare_swap, 2);
    s.arrives(send_only, 3, some);
    s.reply({.op = read_response_only, .syndrome = syndrome::ack}, 0, some);
    assert_int_equal(1, s.sent.last().msn);
    s.reply(acknowledgment, 1);
    assert_int_equal(2, s.sent.last().msn);
    s.reply({.op = atomic_acknowledge, .syndrome = syndrome::ack}, 2);
    assert_int_equal(3, s.sent.last().msn);
    s.reply({.op = acknowledge, .syndrome = syndrome::remote_access}, 3);
    assert_int_equal(3, s.sent.last().msn);
}

DEFINE_TEST(a_packet_that_does_not_fit_its_message_is_rejected, nullptr, nullptr)
{
    struct {
        opcode first, second;
        std::span<const std::byte> payload;
    } const sequences[] = {
            {send_first, write_middle, whole},
            {send_first, write_last, some},
            {write_first, send_middle, whole},
            {write_first, send_last, some},
            {send_first, send_only, some},
            {write_first, read_request, {}},
            {send_first, send_middle, some},
            {send_first, send_last, {}},
            {send_only, send_last, some},
            {send_only, read_request, some},
    };
    for (const auto &sequence : sequences) {
        responder_side s;
        const bool is_whole = sequence.first == send_only;
        const auto first = s.arrives(sequence.first, 0, is_whole ? some : whole, 2 * mtu);
        assert_true(first && !first->is_invalid);
        if (is_whole)
            s.reply(acknowledgment, 0);
        const auto second = s.arrives(sequence.second, 1, sequence.payload);
        assert_true(second && second->is_invalid);
        s.sent.all.clear();
        s.reply({.op = acknowledge, .syndrome = syndrome::invalid_request}, is_whole ? 1 : 0);
        s.replier.received_all(); // the first packet requested an acknowledgment
        assert_int_equal(1, s.sent.all.size());
        assert_int_equal(syndrome::invalid_request, s.sent.last().syndrome);
        assert_int_equal(roce::psn_add(first_psn, 1), s.sent.last().psn);
        assert_false(s.arrives(send_only, 2, some).has_value());
    }
}

DEFINE_TEST(a_repeated_request_is_not_longer_than_the_first, nullptr, nullptr)
{
    responder_side s;
    s.arrives(read_request, 0, {}, 3 * mtu);
    assert_false(s.arrives(read_request, 1, {}, 2 * mtu).has_value()); // its responses are still being sent
    s.reply({.op = read_response_only, .syndrome = syndrome::ack}, 0, std::vector<std::byte>(3 * mtu));
    const auto part = s.arrives(read_request, 1, {}, 2 * mtu);
    assert_true(part && part->replay);
    assert_false(s.arrives(read_request, 1, {}, 2 * mtu + 1).has_value());
    assert_false(s.arrives(read_request, 1, {}, UINT32_MAX).has_value());
}

DEFINE_TEST(reserved_syndromes_are_ignored, nullptr, nullptr)
{
    sent_packets sent;
    roce::sender sender(attributes, sent);
    const iovec part{const_cast<std::byte *>(some.data()), some.size()};
    const roce::time_point now{};
    sender.post({.op = write_only, .psn = first_psn, .dma_length = short_size}, {&part, 1}, now);
    for (const unsigned code : {0x40u, 0x5fu, 0x64u, unsigned{syndrome::unresponsive}, 0x80u, 0x9fu, 0xffu})
        assert_false(
                sender.arrived({.op = acknowledge, .psn = first_psn, .syndrome = static_cast<std::uint8_t>(code)}, now)
                        .has_value());
    const auto up = sender.arrived({.op = acknowledge, .psn = first_psn, .syndrome = 0}, now); // no credits
    assert_true(up && up->op == acknowledge);
}

// The device is a full member of the default partition, which communicates with limited members, too.
DEFINE_TEST(packets_of_other_partitions_are_dropped, nullptr, nullptr)
{
    const roce::transport_headers headers = roce::encode(packet{.op = compare_swap}, 0);
    std::vector<std::byte> bytes(headers.bytes.begin(), headers.bytes.end());
    bytes.resize(bytes.size() + sizeof(roce::invariant_crc));
    const auto is_accepted = [&](unsigned key) {
        bytes[2] = static_cast<std::byte>(key >> 8);
        bytes[3] = static_cast<std::byte>(key);
        packet p;
        return roce::decode(bytes, p);
    };
    assert_true(is_accepted(0xffff) && is_accepted(0x7fff));
    assert_false(is_accepted(0x8001) || is_accepted(0x0001) || is_accepted(0));
}

} // namespace

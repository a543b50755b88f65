// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_server.hpp"
#include "transport/tcp/tcp_conn.hpp"
#include "wire/cm_message.hpp"
#include "wire/frame.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <random>
#include <sys/socket.h>
#include <vector>

#include "cmocka_headers.hpp"

using namespace softrdma;

namespace
{

using enum opcode;
using bytes = std::vector<std::byte>;

bytes frame_of(const packet &p, const bytes &payload = {})
{
    const frame_headers h = encode(p, payload.size());
    bytes frame(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
    frame.insert(frame.end(), payload.begin(), payload.end());
    return frame;
}

packet full_packet(opcode op)
{
    packet p;
    p.op = op;
    p.no_ack_req = true;
    p.solicited = true;
    p.dest_qpn = 0xabcdef;
    p.psn = 0x123456;
    p.remote_addr = 0x1122334455667788;
    p.rkey = 0x99aabbcc;
    p.dma_length = 0x01020304;
    p.imm_data = 0x55667788;
    p.syndrome = 0x62;
    p.placement = 3;
    p.level = 1;
    p.swap_add = 0x0102030405060708;
    p.compare = 0x1112131415161718;
    return p;
}

constexpr opcode all_opcodes[] = {send_first, send_middle, send_last, send_last_imm, send_only, send_only_imm,
        send_last_inv, send_only_inv, write_first, write_middle, write_last, write_last_imm, write_only, write_only_imm,
        read_request, read_response_first, read_response_middle, read_response_last, read_response_only, acknowledge,
        atomic_acknowledge, compare_swap, fetch_add, flush, atomic_write, receive_posted, ack_request, cm_request,
        cm_reply, cm_ready, cm_reject, cm_disconnect_request, cm_disconnect_reply, resolve_request, resolve_reply,
        direct_request, direct_reply, direct_ready};

bool has_payload(opcode op)
{
    return (!is_round_trip(op) || op == atomic_write) && op != acknowledge && op != atomic_acknowledge &&
           op != receive_posted && op != ack_request;
}

DEFINE_TEST(every_packet_survives_the_wire, nullptr, nullptr)
{
    for (const opcode op : all_opcodes) {
        const packet sent = full_packet(op);
        const bytes payload(has_payload(op) ? 37 : 0, std::byte{7});
        const bytes frame = frame_of(sent, payload);
        packet got;
        assert_true(frame_size(frame) == frame.size());
        assert_true(decode(frame, got));
        assert_true(got.op == sent.op && got.solicited && got.no_ack_req && got.dest_qpn == sent.dest_qpn &&
                    got.psn == sent.psn);
        assert_int_equal(got.payload.size(), payload.size());
        if (has_ieth(op))
            assert_true(got.rkey == sent.rkey);
        if (has_reth(op)) {
            assert_true(got.remote_addr == sent.remote_addr);
            assert_true(got.rkey == sent.rkey && got.dma_length == sent.dma_length);
        }
        if (has_imm(op))
            assert_true(got.imm_data == sent.imm_data);
        if (has_aeth(op))
            assert_int_equal(got.syndrome, sent.syndrome);
        if (op == flush)
            assert_true(got.placement == sent.placement && got.level == sent.level);
        if (is_atomic(op))
            assert_true(got.remote_addr == sent.remote_addr && got.rkey == sent.rkey && got.compare == sent.compare);
        if (is_atomic(op) || op == atomic_acknowledge)
            assert_true(got.swap_add == sent.swap_add);
    }
}

DEFINE_TEST(a_write_has_the_infiniband_headers, nullptr, nullptr)
{
    const bytes frame = frame_of(full_packet(write_only_imm), bytes(2, std::byte{0xee}));
    const std::uint8_t expected[] = {0, 0, 0, 34,                                   // length of what follows
            0x0b, 0xc0, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56, // BTH
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0x01, 0x02, 0x03, 0x04, // RETH
            0x88, 0x77, 0x66, 0x55, // ImmDt, stored as the program gave it
            0xee, 0xee};
    assert_int_equal(frame.size(), sizeof(expected));
    assert_memory_equal(frame.data(), expected, sizeof(expected));
}

DEFINE_TEST(a_flush_has_the_infiniband_headers, nullptr, nullptr)
{
    const bytes frame = frame_of(full_packet(flush));
    const std::uint8_t expected[] = {0, 0, 0, 32,                                   // length of what follows
            0x1c, 0xc0, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56, // BTH
            0x00, 0x00, 0x00, 0x13, // FETH: whole region, both placements
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0x01, 0x02, 0x03, 0x04}; // RETH
    assert_int_equal(frame.size(), sizeof(expected));
    assert_memory_equal(frame.data(), expected, sizeof(expected));
}

DEFINE_TEST(truncated_frames_are_refused, nullptr, nullptr)
{
    for (const opcode op : all_opcodes) {
        const bytes frame = frame_of(full_packet(op), bytes(has_payload(op) ? 8 : 0));
        for (std::size_t size = 0; size < frame.size(); ++size) {
            packet got;
            assert_false(decode(std::span(frame).first(size), got));
            bytes shorter(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
            if (size < length_size)
                continue;
            shorter[3] = static_cast<std::byte>(size - length_size); // a length that fits the truncation
            if (decode(shorter, got))
                assert_true(has_payload(op) && frame.size() - size <= 8);
        }
    }
}

DEFINE_TEST(impossible_frames_are_refused, nullptr, nullptr)
{
    packet got;
    bytes huge(4, std::byte{0xff});
    assert_false(frame_size(huge).has_value());
    bytes unknown = frame_of(full_packet(send_only));
    for (unsigned op = 0; op < 256; ++op) {
        unknown[4] = static_cast<std::byte>(op);
        const bool known = std::find(std::begin(all_opcodes), std::end(all_opcodes), static_cast<opcode>(op)) !=
                           std::end(all_opcodes);
        if (!known)
            assert_false(decode(unknown, got));
    }
    bytes wide = frame_of(full_packet(send_only));
    wide[8] = std::byte{1}; // a queue pair number of 25 bits
    assert_false(decode(wide, got));
    assert_false(decode(frame_of(full_packet(acknowledge), bytes(1)), got));
    assert_false(decode(frame_of(full_packet(write_only), bytes(max_segment + 1)), got));
}

struct division {
    opcode whole;
    opcode first;
    opcode middle;
    opcode last;
};

constexpr division divisions[] = {
        {send_first, send_first, send_middle, send_middle},
        {send_middle, send_middle, send_middle, send_middle},
        {send_last, send_middle, send_middle, send_last},
        {send_last_imm, send_middle, send_middle, send_last_imm},
        {send_only, send_first, send_middle, send_last},
        {send_only_imm, send_first, send_middle, send_last_imm},
        {send_last_inv, send_middle, send_middle, send_last_inv},
        {send_only_inv, send_first, send_middle, send_last_inv},
        {write_first, write_first, write_middle, write_middle},
        {write_middle, write_middle, write_middle, write_middle},
        {write_last, write_middle, write_middle, write_last},
        {write_last_imm, write_middle, write_middle, write_last_imm},
        {write_only, write_first, write_middle, write_last},
        {write_only_imm, write_first, write_middle, write_last_imm},
        {read_response_first, read_response_first, read_response_middle, read_response_middle},
        {read_response_middle, read_response_middle, read_response_middle, read_response_middle},
        {read_response_last, read_response_middle, read_response_middle, read_response_last},
        {read_response_only, read_response_first, read_response_middle, read_response_last},
};

// Returns all packets that `reader` decodes while `stream` arrives in steps of `step` bytes.
std::vector<std::pair<packet, bytes>> packets_of(frame_reader &reader, const bytes &stream, std::size_t step)
{
    std::vector<std::pair<packet, bytes>> packets;
    std::size_t at = 0;
    for (std::size_t arrived = std::min(step, stream.size()); at < stream.size();) {
        packet p;
        std::size_t taken = 0;
        const auto found = reader.next(std::span(stream).subspan(at, arrived - at), p, taken);
        assert_true(found != frame_reader::found::garbage);
        if (found == frame_reader::found::too_little) {
            assert_true(arrived < stream.size());
            assert_true(arrived - at < frame_reader::whole);
            arrived = std::min(arrived + step, stream.size());
            continue;
        }
        assert_true(taken > 0 && taken <= arrived - at);
        packets.emplace_back(p, bytes(p.payload.begin(), p.payload.end()));
        at += taken;
    }
    return packets;
}

DEFINE_TEST(long_segments_are_handed_on_as_they_arrive, nullptr, nullptr)
{
    std::mt19937 random(20260102);
    bytes payload(6 * frame_reader::whole + 1000);
    for (std::byte &b : payload)
        b = static_cast<std::byte>(random());
    const bytes after = frame_of(full_packet(flush));
    for (const division &d : divisions) {
        bytes stream = frame_of(full_packet(d.whole), payload);
        packet whole;
        assert_true(decode(stream, whole));
        stream.insert(stream.end(), after.begin(), after.end());
        for (const std::size_t step : {std::size_t{1000}, frame_reader::whole + 100, std::size_t{60000}}) {
            frame_reader reader;
            const auto packets = packets_of(reader, stream, step);
            assert_true(packets.size() > 2);
            assert_int_equal(packets.back().first.op, flush);
            bytes joined;
            for (std::size_t i = 0; i + 1 < packets.size(); ++i) {
                const auto &[p, part] = packets[i];
                const bool last = i + 2 == packets.size();
                assert_int_equal(p.op, i == 0 ? d.first : last ? d.last : d.middle);
                assert_true(last || part.size() % frame_reader::unit == 0);
                assert_int_equal(p.dest_qpn, whole.dest_qpn);
                assert_int_equal(p.psn, whole.psn);
                assert_true(p.remote_addr == whole.remote_addr && p.rkey == whole.rkey);
                assert_int_equal(p.dma_length, whole.dma_length);
                assert_int_equal(p.imm_data, whole.imm_data);
                assert_int_equal(p.solicited, whole.solicited);
                assert_int_equal(p.syndrome, whole.syndrome);
                joined.insert(joined.end(), part.begin(), part.end());
            }
            assert_true(joined == payload);
        }
        frame_reader reader;
        assert_int_equal(packets_of(reader, stream, stream.size()).size(), 2);
    }
}

DEFINE_TEST(long_frames_that_cannot_be_divided_are_refused, nullptr, nullptr)
{
    for (const opcode op : all_opcodes) {
        if (std::any_of(std::begin(divisions), std::end(divisions), [&](const division &d) { return d.whole == op; }))
            continue;
        bytes frame = frame_of(full_packet(op), bytes(2 * frame_reader::whole));
        frame.pop_back();
        packet p;
        std::size_t taken = 0;
        assert_int_equal(frame_reader().next(frame, p, taken), frame_reader::found::garbage);
    }
    const bytes too_long = frame_of(full_packet(write_middle), bytes(max_segment + 1));
    packet p;
    std::size_t taken = 0;
    assert_int_equal(frame_reader().next(std::span(too_long).first(frame_reader::whole), p, taken),
            frame_reader::found::garbage);
}

// The sanitizers check that no input causes a read out of bounds.
DEFINE_TEST(garbage_is_read_within_its_bounds, nullptr, nullptr)
{
    std::mt19937 random(20260101);
    unsigned accepted = 0;
    for (unsigned round = 0; round < 200000; ++round) {
        bytes frame(4 + random() % 64);
        for (std::byte &b : frame)
            b = static_cast<std::byte>(random());
        if (round % 2 == 0) {
            frame[0] = frame[1] = frame[2] = std::byte{0};
            frame[3] = static_cast<std::byte>(frame.size() - 4);
            if (frame.size() > 12)
                frame[8] = frame[12] = std::byte{0};
        }
        packet got;
        cm_handshake handshake;
        direct_handshake direct;
        shm_decision decision;
        cm_rejection rejection;
        if (decode(std::span<const std::byte>(frame), got)) {
            ++accepted;
            assert_true(got.payload.empty() ||
                        (got.payload.data() >= frame.data() &&
                                got.payload.data() + got.payload.size() <= frame.data() + frame.size()));
        }
        decode(std::span<const std::byte>(frame), handshake);
        decode(std::span<const std::byte>(frame), direct);
        decode(std::span<const std::byte>(frame), decision);
        decode(std::span<const std::byte>(frame), rejection);
    }
    assert_true(accepted > 0);
}

DEFINE_TEST(handshakes_survive_the_wire, nullptr, nullptr)
{
    cm_handshake sent;
    sent.key.fill(std::byte{0x42});
    sent.qpn = 0x123456;
    sent.psn = 0xfedcba;
    sent.responder_resources = 1;
    sent.initiator_depth = 2;
    sent.rnr_retry_count = 7;
    assert_true(sent.data.assign("private", 7, request_private_size));
    const cm_payload payload = encode(sent);
    cm_handshake got;
    assert_true(decode(std::span(payload.bytes).first(payload.size), got));
    assert_true(got.key == sent.key && got.qpn == sent.qpn && got.psn == sent.psn);
    assert_true(got.data.size == request_private_size && got.data.bytes == sent.data.bytes);
    for (std::size_t size = 0; size < payload.size; ++size)
        assert_false(decode(std::span(payload.bytes).first(size), got));
    cm_payload newer = payload;
    newer.bytes[8] = std::byte{3};
    assert_false(decode(std::span(newer.bytes).first(newer.size), got));
    assert_false(sent.data.assign("x", request_private_size + 1, request_private_size));
}

DEFINE_TEST(handshakes_without_the_connection_manager_survive_the_wire, nullptr, nullptr)
{
    direct_handshake sent{.from = 0x123456, .to = 0xfedcba, .shm_address = {}};
    sent.shm_address.absence_reason = no_shm_reason::user;
    const cm_payload payload = encode(sent);
    direct_handshake got;
    assert_true(decode(payload, got));
    assert_true(got.from == sent.from && got.to == sent.to);
    assert_true(got.shm_address.absence_reason == no_shm_reason::user);
    const std::size_t without_reason = payload.size - 1; // valid without a reason, too
    for (std::size_t size = 0; size < payload.size; ++size)
        assert_int_equal(decode(std::span(payload.bytes).first(size), got), size == without_reason);
}

DEFINE_TEST(decisions_survive_the_wire, nullptr, nullptr)
{
    shm_decision got;
    assert_true(decode(encode(shm_decision{.shares = true}), got));
    assert_true(got.shares);
    for (const auto reason : {no_shm_reason::none, no_shm_reason::denied}) {
        assert_true(decode(encode(shm_decision{.shares = false, .reason = reason}), got));
        assert_true(!got.shares && got.reason == reason);
    }
    const std::byte payload[] = {std::byte{0}, std::byte{0xff}, std::byte{0}};
    assert_true(decode(std::span(payload).first(2), got)); // an unknown reason is accepted
    assert_true(!got.shares && got.reason == no_shm_reason::none);
    assert_false(decode(std::span(payload).first(0), got));
    assert_false(decode(payload, got));
}

DEFINE_TEST(a_message_of_another_version_is_rejected_with_its_version, nullptr, nullptr)
{
    cm_payload message = encode(direct_handshake{.from = 1, .to = 2, .shm_address = {}});
    direct_handshake decoded;
    assert_true(decode(message, decoded));
    assert_int_equal(version_of(message), wire_version);
    message.bytes[8] = std::byte{wire_version + 1}; // after the magic number
    assert_false(decode(message, decoded));
    assert_int_equal(version_of(message), wire_version + 1);
    message.bytes[0] = std::byte{0};
    assert_int_equal(version_of(message), 0);
}

// The packet was sent to SoftRoCE of Linux 6.12, which drops it unless its CRC counts the packet twice.
DEFINE_TEST(a_flush_has_the_crc_of_either_rule, nullptr, nullptr)
{
    packet p{.op = flush, .dest_qpn = 0x11, .psn = 0x8fd9b7, .remote_addr = 0x7f5c4e600011};
    p.rkey = 0x2ee;
    p.dma_length = 1024;
    p.placement = 1;
    const auto address = [](unsigned last) {
        network_address mapped{};
        const unsigned end[] = {255, 255, 192, 168, 77, last};
        std::transform(std::begin(end), std::end(end), mapped.begin() + 10, [](unsigned b) { return std::byte(b); });
        return mapped;
    };
    const roce::udp_flow flow{address(1), address(2), 0xc011};
    const roce::transport_headers headers = roce::encode(p, 0);
    bytes sent(headers.bytes.begin(), headers.bytes.begin() + static_cast<std::ptrdiff_t>(headers.size));
    const auto with = [&](std::uint32_t crc) {
        bytes whole = sent;
        for (int shift = 24; shift >= 0; shift -= 8)
            whole.push_back(static_cast<std::byte>(crc >> shift));
        return whole;
    };
    for (const auto &[rule, crc] :
            {std::pair(roce::crc_rule::standard, 0x23bbd613u), std::pair(roce::crc_rule::packet_twice, 0x5c0c0444u)}) {
        const roce::invariant_crc computed = roce::crc_of(flow, sent, {}, rule);
        assert_memory_equal(computed.data(), with(crc).data() + sent.size(), computed.size());
        assert_true(roce::has_valid_crc(flow, with(crc)));
        assert_false(roce::has_valid_crc(flow, with(crc ^ 1)));
    }
    sent[0] = static_cast<std::byte>(atomic_write);
    const roce::invariant_crc twice = roce::crc_of(flow, sent, {}, roce::crc_rule::packet_twice);
    sent.insert(sent.end(), twice.begin(), twice.end());
    assert_false(roce::has_valid_crc(flow, sent));
}

// Receiver and user of a connection. One thread at a time reads it and calls them.
struct reader_of_packets final : packet_receiver, tcp_conn_user {
    bool receive(packet_path &, const packet &) override { return is_pending = true; }
    void fill_destination(const packet_path &, const packet &, std::size_t,
            const std::function<void(std::span<std::byte>)> &) override
    {
    }
    void received_all() override { is_pending = false; }
    void path_writable() override {}
    void timer_expired() override {}
    void response_timer_expired() override {}
    void path_lost(const packet_path &) override {}
    void connected(const std::shared_ptr<tcp_conn> &) override {}
    void lost(const std::shared_ptr<tcp_conn> &, const std::shared_ptr<packet_receiver> &, int) override {}
    bool received(const std::shared_ptr<tcp_conn> &, const packet &) override
    {
        overtook = is_pending;
        return is_done = true;
    }

    bool is_pending = false; // a message lacks its completion
    bool overtook = false;
    std::atomic<bool> is_done{false};
};

DEFINE_TEST(a_disconnect_does_not_overtake_a_message, nullptr, nullptr)
{
    constexpr std::uint32_t qpn = 7;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    bytes stream = frame_of({.op = send_only, .dest_qpn = qpn});
    const bytes disconnect = frame_of({.op = cm_disconnect_request});
    stream.insert(stream.end(), disconnect.begin(), disconnect.end());
    assert_non_null(start_event_loop());
    const auto reader = std::make_shared<reader_of_packets>();
    const auto path = tcp_conn::open(ends[0], tcp_conn::role::accepted, *reader);
    assert_non_null(path.get());
    path->bind(reader, qpn);
    assert_int_equal(send(ends[1], stream.data(), stream.size(), 0), stream.size());
    while (!reader->is_done)
        path->poll();
    assert_false(reader->overtook);
    path->bind(nullptr, 0);
    path->finish();
    close(ends[1]);
}

} // namespace

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softrdma
{

// Message segment in terms of the InfiniBand headers (BTH, FETH, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH).
// Opcodes are those of the reliable connection; 0xC0 and above are reserved for manufacturers.
enum class opcode : std::uint8_t {
    send_first = 0x00,
    send_middle = 0x01,
    send_last = 0x02,
    send_last_imm = 0x03,
    send_only = 0x04,
    send_only_imm = 0x05,
    write_first = 0x06,
    write_middle = 0x07,
    write_last = 0x08,
    write_last_imm = 0x09,
    write_only = 0x0a,
    write_only_imm = 0x0b,
    read_request = 0x0c,
    read_response_first = 0x0d,
    read_response_middle = 0x0e,
    read_response_last = 0x0f,
    read_response_only = 0x10,
    acknowledge = 0x11,
    atomic_acknowledge = 0x12,
    compare_swap = 0x13,
    fetch_add = 0x14,
    send_last_inv = 0x16,
    send_only_inv = 0x17,
    flush = 0x1c,
    atomic_write = 0x1d,
    receive_posted = 0xc0, // ends a receiver-not-ready pause early
    ack_request = 0xc1,    // requests delayed acknowledgments: no request follows for now
    cm_request = 0xc8,
    cm_reply = 0xc9,
    cm_ready = 0xca,
    cm_reject = 0xcb,
    cm_disconnect_request = 0xcc,
    cm_disconnect_reply = 0xcd,
    resolve_request = 0xce, // resolves the number of a datagram queue pair
    resolve_reply = 0xcf,
    direct_request = 0xd0, // queue pairs that are connected without the connection manager
    direct_reply = 0xd1,
    direct_ready = 0xd2,
};

namespace syndrome
{
inline constexpr std::uint8_t ack = 0x1f;
inline constexpr std::uint8_t sequence_error = 0x60;
inline constexpr std::uint8_t rnr = 0x20; // low five bits: the receiver's RNR timer
inline constexpr std::uint8_t invalid_request = 0x61;
inline constexpr std::uint8_t remote_access = 0x62;
inline constexpr std::uint8_t remote_operational = 0x63;
// Reserved code: the queue pair will never respond. An RNIC would send nothing, until the retry limit of the sender.
inline constexpr std::uint8_t unresponsive = 0x7f;
} // namespace syndrome

inline constexpr std::uint32_t psn_mask = 0xffffff;

// The partition key that the device sends: that of the default partition, for full members.
inline constexpr std::uint16_t default_pkey = 0xffff;

// Maximum payload of one segment. A multiple of 8, so that segments of an 8-byte aligned target stay aligned.
inline constexpr std::uint32_t max_segment = 1024 * 1024;
// Segments of this size are built even if only part of them can be sent immediately.
inline constexpr std::uint32_t short_segment = 64 * 1024;

inline constexpr std::uint32_t word_size = sizeof(std::uint64_t);

struct packet {
    opcode op{};
    bool solicited = false;
    bool no_ack_req = false; // request: a later response suffices (the opposite of AckReq)
    std::uint32_t dest_qpn = 0;
    std::uint32_t psn = 0;
    std::uint64_t remote_addr = 0;
    std::uint32_t rkey = 0; // or the key of the window that a SEND invalidates
    std::uint32_t dma_length = 0;
    std::uint32_t imm_data = 0; // network byte order, as in struct ibv_wc
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;      // number of messages that the responder has completed, with an AETH
    std::uint8_t placement = 0; // FLUSH only, like `level`
    std::uint8_t level = 0;
    std::uint64_t swap_add = 0; // operand of an atomic operation; in its response, the old value
    std::uint64_t compare = 0;
    bool replay = false; // READ request that the network repeats, and its responses: executed apart from the sequence
    bool is_invalid = false; // inbound request that does not fit the packets before it: the responder rejects it
    std::span<const std::byte> payload{}; // inbound packets only
};

// True if `a` comes after `b` in the circular 24-bit sequence space.
constexpr bool psn_after(std::uint32_t a, std::uint32_t b) noexcept
{
    const std::uint32_t distance = (a - b) & psn_mask;
    return distance != 0 && distance < (psn_mask + 1) / 2;
}

constexpr bool has_ieth(opcode op) noexcept // SEND that invalidates a window
{
    return op == opcode::send_last_inv || op == opcode::send_only_inv;
}

constexpr bool is_send(opcode op) noexcept
{
    return op <= opcode::send_only_imm || has_ieth(op);
}

constexpr bool is_write(opcode op) noexcept
{
    return op >= opcode::write_first && op <= opcode::write_only_imm;
}

constexpr bool is_first(opcode op) noexcept
{
    return op == opcode::send_first || op == opcode::send_only || op == opcode::send_only_imm ||
           op == opcode::send_only_inv || op == opcode::write_first || op == opcode::write_only ||
           op == opcode::write_only_imm;
}

constexpr bool is_last(opcode op) noexcept
{
    return (is_send(op) || is_write(op)) && op != opcode::send_first && op != opcode::send_middle &&
           op != opcode::write_first && op != opcode::write_middle;
}

constexpr bool has_imm(opcode op) noexcept
{
    return op == opcode::send_last_imm || op == opcode::send_only_imm || op == opcode::write_last_imm ||
           op == opcode::write_only_imm;
}

constexpr bool is_atomic(opcode op) noexcept
{
    return op == opcode::compare_swap || op == opcode::fetch_add;
}

// Requests of one packet that have a response of their own instead of an acknowledgment.
constexpr bool is_round_trip(opcode op) noexcept
{
    return op == opcode::read_request || is_atomic(op) || op == opcode::flush || op == opcode::atomic_write;
}

constexpr bool has_reth(opcode op) noexcept
{
    return op == opcode::write_first || op == opcode::write_only || op == opcode::write_only_imm ||
           op == opcode::read_request || op == opcode::flush || op == opcode::atomic_write;
}

constexpr bool has_aeth(opcode op) noexcept
{
    return op == opcode::acknowledge || op == opcode::read_response_first || op == opcode::read_response_last ||
           op == opcode::read_response_only || op == opcode::atomic_acknowledge;
}

constexpr bool is_request(opcode op) noexcept
{
    return op <= opcode::read_request || has_ieth(op) || is_round_trip(op);
}

constexpr bool is_read_response(opcode op) noexcept
{
    return op >= opcode::read_response_first && op <= opcode::read_response_only;
}

// Returns whether a message of this opcode may consist of several packets.
constexpr bool is_divisible(opcode op) noexcept
{
    return is_send(op) || is_write(op) || is_read_response(op);
}

constexpr bool is_cm(opcode op) noexcept
{
    return op >= opcode::cm_request && op <= opcode::resolve_reply;
}

// Opcode for a part of a message, or of a READ response. `whole` is the opcode of the whole message in one part, or of
// any part that agrees in two properties: SEND or WRITE, and the extra headers of the last part.
constexpr opcode part_of(opcode whole, bool first, bool last) noexcept
{
    if (is_send(whole)) {
        if (last && has_ieth(whole))
            return first ? opcode::send_only_inv : opcode::send_last_inv;
        if (last)
            return has_imm(whole) ? (first ? opcode::send_only_imm : opcode::send_last_imm)
                                  : (first ? opcode::send_only : opcode::send_last);
        return first ? opcode::send_first : opcode::send_middle;
    }
    if (is_write(whole)) {
        if (last)
            return has_imm(whole) ? (first ? opcode::write_only_imm : opcode::write_last_imm)
                                  : (first ? opcode::write_only : opcode::write_last);
        return first ? opcode::write_first : opcode::write_middle;
    }
    if (last)
        return first ? opcode::read_response_only : opcode::read_response_last;
    return first ? opcode::read_response_first : opcode::read_response_middle;
}

constexpr bool is_control(opcode op) noexcept // packets that set up and close a connection
{
    return is_cm(op) || (op >= opcode::direct_request && op <= opcode::direct_ready);
}

} // namespace softrdma

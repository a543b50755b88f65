// SPDX-License-Identifier: BSD-3-Clause
#include "wire/roce.hpp"
#include "base/gid_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <netinet/in.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace softrdma::roce
{

namespace
{

constexpr std::uint8_t hop_limit = 64;
constexpr std::size_t identification_offset = 4; // in the IPv4 header
constexpr std::uint8_t version_mask = 0x0f;      // transport version in the flags of the BTH
constexpr std::uint8_t padding_mask = 0x03;
constexpr std::uint16_t full_member = 0x8000; // in a P_Key; a full member communicates with limited members, too

constexpr std::uint32_t polynomial = 0xedb88320; // its bits are reversed

// Table `n` advances the CRC by a byte that `n` more bytes follow.
constexpr auto crc_tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1) != 0 ? polynomial ^ value >> 1 : value >> 1;
        tables[0][i] = value;
    }
    for (std::size_t n = 1; n < tables.size(); ++n) {
        for (std::size_t i = 0; i < 256; ++i)
            tables[n][i] = tables[0][tables[n - 1][i] & 0xff] ^ tables[n - 1][i] >> 8;
    }
    return tables;
}();

constexpr std::uint32_t advance(std::uint32_t value, std::byte b) noexcept
{
    return crc_tables[0][(value ^ static_cast<std::uint32_t>(b)) & 0xff] ^ value >> 8;
}

std::uint32_t crc_by_table(std::uint32_t value, std::span<const std::byte> bytes) noexcept
{
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
        std::uint32_t next = 0;
        for (std::size_t i = 0; i < 8; ++i) {
            const std::uint32_t before = i < 4 ? value >> 8 * i & 0xff : 0;
            next ^= crc_tables[7 - i][before ^ static_cast<std::uint32_t>(bytes[i])];
        }
        value = next;
    }
    for (const std::byte b : bytes)
        value = advance(value, b);
    return value;
}

#ifdef __x86_64__

// Folds blocks of 16 bytes into the last one, whose CRC from 0 is that of all. `bytes` has at least 64.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t crc_by_folding(
        std::uint32_t value, std::span<const std::byte> bytes) noexcept
{
    const auto load = [&bytes] {
        __m128i block;
        memcpy(&block, bytes.data(), sizeof(block));
        bytes = bytes.subspan(sizeof(block));
        return block;
    };
    const auto fold = [](__m128i block, __m128i distance) __attribute__((target("pclmul,sse4.1")))
    {
        return _mm_xor_si128(_mm_clmulepi64_si128(block, distance, 0x00), _mm_clmulepi64_si128(block, distance, 0x11));
    };
    // Remainders of x^(512 +- 32) and x^(128 +- 32), with their bits reversed.
    const __m128i by_64_bytes = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16_bytes = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    __m128i blocks[]{load(), load(), load(), load()};
    blocks[0] = _mm_xor_si128(blocks[0], _mm_cvtsi32_si128(static_cast<int>(value)));
    while (bytes.size() >= sizeof(blocks)) {
        for (__m128i &block : blocks)
            block = _mm_xor_si128(fold(block, by_64_bytes), load());
    }
    __m128i all = blocks[0];
    for (std::size_t i = 1; i < std::size(blocks); ++i)
        all = _mm_xor_si128(fold(all, by_16_bytes), blocks[i]);
    while (bytes.size() >= sizeof(all))
        all = _mm_xor_si128(fold(all, by_16_bytes), load());
    std::array<std::byte, sizeof(all)> last;
    memcpy(last.data(), &all, sizeof(all));
    return crc_by_table(crc_by_table(0, last), bytes);
}

#endif

std::uint32_t crc(std::uint32_t value, std::span<const std::byte> bytes) noexcept
{
#ifdef __x86_64__
    static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (folds && bytes.size() >= 128)
        return crc_by_folding(value, bytes);
#endif
    return crc_by_table(value, bytes);
}

// Product of two polynomials modulo that of the CRC; the highest bit is the coefficient of 1.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept
{
    std::uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        product ^= (a >> 31) * b;
        b = b >> 1 ^ (b & 1) * polynomial;
    }
    return product;
}

// Reverts the CRC by `count` zero bytes, which are fewer than 65536: divides it by x^8 that number of times.
std::uint32_t revert(std::uint32_t value, std::size_t count) noexcept
{
    static constexpr auto inverses = [] { // entry `n` reverts 2^n bytes
        std::array<std::uint32_t, 16> entries{1u << 31};
        for (int bit = 0; bit < 8; ++bit)
            entries[0] = (entries[0] ^ (entries[0] >> 31) * polynomial) << 1 | entries[0] >> 31;
        for (std::size_t n = 1; n < entries.size(); ++n)
            entries[n] = multiply(entries[n - 1], entries[n - 1]);
        return entries;
    }();
    for (std::size_t n = 0; n < inverses.size(); ++n) {
        if ((count >> n & 1) != 0)
            value = multiply(value, inverses[n]);
    }
    return value;
}

std::size_t padding_of(std::size_t payload_size) noexcept
{
    return (4 - payload_size % 4) % 4;
}

std::uint8_t flags_of(bool solicited, std::size_t padding) noexcept
{
    return static_cast<std::uint8_t>((solicited ? solicited_flag : 0) | migrated_flag | padding << padding_shift);
}

std::span<const std::byte> ip_of(const network_address &address) noexcept
{
    return std::span(address).subspan(is_v4(std::bit_cast<ibv_gid>(address)) ? mapped_v4_position : 0);
}

} // namespace

network_headers encode(const udp_flow &flow, std::size_t udp_length) noexcept
{
    network_headers headers;
    byte_writer w(headers.bytes.data());
    const auto from = ip_of(flow.source);
    const auto to = ip_of(flow.destination);
    if (from.size() == 4) {
        w.put(std::uint16_t{0x4500}).put(static_cast<std::uint16_t>(ipv4_size + udp_length));
        w.put(std::uint16_t{0}).put(std::uint16_t{0x4000}); // do not fragment
        w.put(hop_limit).put(static_cast<std::uint8_t>(IPPROTO_UDP)).put(std::uint16_t{0});
    } else {
        w.put(std::uint32_t{6} << 28).put(static_cast<std::uint16_t>(udp_length));
        w.put(static_cast<std::uint8_t>(IPPROTO_UDP)).put(hop_limit);
    }
    w.put_raw(from.data(), from.size()).put_raw(to.data(), to.size());
    headers.ip_size = w.size();
    w.put(flow.source_port).put(udp_port).put(static_cast<std::uint16_t>(udp_length)).put(std::uint16_t{0});
    headers.size = w.size();
    return headers;
}

std::uint32_t sum_words(std::uint32_t sum, std::span<const std::byte> bytes) noexcept
{
    for (std::size_t i = 0; i < bytes.size(); ++i)
        sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

void put_ip_checksum(std::span<std::byte> header) noexcept
{
    byte_writer(header.data() + 10).put(static_cast<std::uint16_t>(~sum_words(0, header)));
}

network_header header_of(const udp_flow &flow, std::size_t bytes) noexcept
{
    network_headers sent = encode(flow, udp_size + bytes);
    if (sent.ip_size == ipv4_size)
        put_ip_checksum(std::span(sent.bytes).first(ipv4_size));
    network_header header{};
    std::copy_n(sent.bytes.begin(), sent.ip_size, header.end() - static_cast<std::ptrdiff_t>(sent.ip_size));
    return header;
}

transport_headers encode(const packet &p, std::size_t payload_size) noexcept
{
    transport_headers headers;
    headers.padding = padding_of(payload_size);
    byte_writer w(headers.bytes.data());
    put(w, {.opcode = static_cast<std::uint8_t>(p.op),
                   .flags = flags_of(p.solicited, headers.padding),
                   .dest_qpn = p.dest_qpn & psn_mask,
                   .psn = (p.psn & psn_mask) | (is_request(p.op) && !p.no_ack_req ? ack_req_bit : 0)});
    put_extended(w, p);
    headers.size = w.size();
    return headers;
}

transport_headers encode(const datagram &d, std::size_t payload_size) noexcept
{
    transport_headers headers;
    headers.padding = padding_of(payload_size);
    const datagram_headers plain = encode(d);
    std::copy_n(plain.bytes.begin(), plain.size, headers.bytes.begin());
    headers.bytes[1] = std::byte{flags_of(d.solicited, headers.padding)};
    headers.size = plain.size;
    return headers;
}

// Reads the BTH of a packet with a CRC. Returns false for another version or partition.
static bool begin(std::span<const std::byte> bytes, byte_reader &r, bth &header) noexcept
{
    if (bytes.size() % 4 != 0 || bytes.size() < bth_size + sizeof(invariant_crc))
        return false;
    r = byte_reader(bytes.first(bytes.size() - sizeof(invariant_crc)));
    header = get_bth(r);
    return (header.flags & version_mask) == 0 && (header.pkey | full_member) == default_pkey;
}

// Takes the payload after the headers. Returns false if the packet is shorter than it claims.
static bool end(const byte_reader &r, const bth &header, std::span<const std::byte> &payload) noexcept
{
    const std::size_t padding = header.flags >> padding_shift & padding_mask;
    const auto rest = r.rest();
    if (!r.good() || rest.size() < padding)
        return false;
    payload = rest.first(rest.size() - padding);
    return true;
}

bool decode(std::span<const std::byte> bytes, packet &p) noexcept
{
    byte_reader r(bytes);
    bth header;
    p = {};
    if (!begin(bytes, r, header))
        return false;
    p.op = static_cast<opcode>(header.opcode);
    p.solicited = (header.flags & solicited_flag) != 0;
    p.no_ack_req = (header.psn & ack_req_bit) == 0;
    p.dest_qpn = header.dest_qpn & psn_mask;
    p.psn = header.psn & psn_mask;
    const bool is_response =
            is_read_response(p.op) || p.op == opcode::acknowledge || p.op == opcode::atomic_acknowledge;
    if (!is_request(p.op) && !is_response)
        return false;
    get_extended(r, p);
    return end(r, header, p.payload) && (p.payload.empty() || is_request(p.op) || is_read_response(p.op));
}

bool decode_datagram(std::span<const std::byte> bytes, datagram &d) noexcept
{
    byte_reader r(bytes);
    bth header;
    d = {};
    if (!begin(bytes, r, header))
        return false;
    d.solicited = (header.flags & solicited_flag) != 0;
    d.dest_qpn = header.dest_qpn & psn_mask;
    d.psn = header.psn & psn_mask;
    return get_datagram(r, header, d) && end(r, header, d.payload) && d.payload.size() <= max_datagram_payload;
}

// Fields that routers may change count as ones.
static std::uint32_t invariant_value(const udp_flow &flow, std::span<const std::byte> transport,
        std::span<const std::byte> payload, crc_rule rule, std::uint16_t identification) noexcept
{
    constexpr std::byte ones{0xff};
    constexpr std::array<std::byte, 8> no_local_route{ones, ones, ones, ones, ones, ones, ones, ones};
    constexpr std::array<std::byte, 3> zeros{};
    constexpr std::size_t reserved = 4; // byte of the BTH for congestion control
    const std::size_t padding = padding_of(transport.size() + payload.size());
    network_headers network =
            encode(flow, udp_size + transport.size() + payload.size() + padding + sizeof(invariant_crc));
    auto &masked = network.bytes;
    if (network.ip_size == ipv4_size) {
        byte_writer(masked.data() + identification_offset).put(identification);
        masked[1] = masked[8] = masked[10] = masked[11] = ones;
    } else {
        masked[0] |= std::byte{0x0f};
        masked[1] = masked[2] = masked[3] = masked[7] = ones;
    }
    masked[network.ip_size + 6] = masked[network.ip_size + 7] = ones; // UDP checksum
    std::uint32_t value = crc(~0u, no_local_route);
    value = crc(value, std::span(masked).first(network.size));
    value = crc(value, transport.first(reserved));
    value = crc(value, std::span(&ones, 1));
    value = crc(value, transport.subspan(reserved + 1));
    value = crc(crc(value, payload), std::span(zeros).first(padding));
    return ~(rule == crc_rule::packet_twice ? crc(value, transport) : value); // a FLUSH has no payload
}

// A CRC is linear: the difference of two identifications, moved back to their place, has 16 bits.
static bool has_crc_of(crc_rule rule, const udp_flow &flow, std::span<const std::byte> bytes) noexcept
{
    const auto packet = bytes.first(bytes.size() - sizeof(invariant_crc));
    std::uint32_t difference = invariant_value(flow, packet, {}, rule, 0);
    for (std::size_t i = 0; i < sizeof(invariant_crc); ++i)
        difference ^= static_cast<std::uint32_t>(bytes[packet.size() + i]) << 8 * i;
    if (difference == 0 || ip_of(flow.destination).size() != sizeof(std::uint32_t))
        return difference == 0;
    const std::size_t behind = packet.size() * (rule == crc_rule::packet_twice ? 2 : 1);
    return revert(difference, ipv4_size - identification_offset + udp_size + behind) <= 0xffff;
}

invariant_crc crc_of(const udp_flow &flow, std::span<const std::byte> headers, std::span<const std::byte> payload,
        crc_rule rule, std::uint16_t identification) noexcept
{
    const std::uint32_t value = invariant_value(flow, headers, payload, rule, identification);
    invariant_crc result;
    for (std::size_t i = 0; i < result.size(); ++i) // low byte first, unlike all others
        result[i] = static_cast<std::byte>(value >> 8 * i);
    return result;
}

bool has_valid_crc(const udp_flow &flow, std::span<const std::byte> bytes) noexcept
{
    return has_crc_of(crc_rule::standard, flow, bytes) ||
           (bytes[0] == static_cast<std::byte>(opcode::flush) && has_crc_of(crc_rule::packet_twice, flow, bytes));
}

} // namespace softrdma::roce
